'use strict';
// Scratch's own virtual machine, from its sources: the bundle it is published with needs a browser's files.
const Module = require('module');
const path = require('path');

// What draws, sounds and talks to devices stays out; the machine only needs these names to exist.
const ABSENT = {
    '@mediapipe/face_detection/package.json': {},
    '@scratch/scratch-render': {},
    '@scratch/scratch-storage': {},
    '@scratch/scratch-svg-renderer': {
        BitmapAdapter: class {}, SvgRenderer: class {}, sanitizeSvg: {sanitizeByteStream: bytes => bytes},
    },
    '@tensorflow-models/face-detection': {},
    '@vernier/godirect': {},
    'canvas-toBlob': {},
    'scratch-audio': {},
    'scratch-sb1-converter': {SB1File: class {}, ValidationError: class extends Error {}},
    'scratch-translate-extension-languages': {},
};

module.exports = packages => {
    const load = Module._load;
    Module._load = function (name, ...rest) {
        if (name.startsWith('!')) return {};  // a webpack loader before an asset
        return Object.hasOwn(ABSENT, name) ? ABSENT[name] : load.call(this, name, ...rest);
    };
    for (const asset of ['.mp3', '.png', '.svg']) Module._extensions[asset] = module => { module.exports = ''; };
    return require(path.join(packages, '@scratch/scratch-vm/src/index.js'));
};
