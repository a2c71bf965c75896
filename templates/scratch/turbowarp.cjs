'use strict';
// TurboWarp's virtual machine, which compiles scripts to JavaScript, from the player of its packager.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

// An element of a page that takes whatever is asked of it: the player looks for one while it loads.
const element = () => new Proxy(function () {}, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : element()),
    apply: element,
    set: () => true,
});

module.exports = packages => {
    const location = 'http://localhost/';
    Object.assign(globalThis, {
        HTMLCanvasElement: class {}, HTMLElement: class {}, Image: class {},
        document: element(), location: new URL(location), self: globalThis, window: globalThis,
        localStorage: {getItem: () => null, setItem () {}},
    });
    globalThis.navigator ??= {language: 'en', userAgent: 'node'};  // Node.js has one since version 21
    const file = path.join(packages, '@turbowarp/packager/dist/scaffolding/scaffolding-min.js');
    vm.runInThisContext(fs.readFileSync(file, 'utf8'), {filename: file});
    return globalThis.Scaffolding.VM;
};
