'use strict';
// Opens a project in Scratch's editor, clicks its green flag, waits, takes a picture and tells what it then holds.
//     node editor.cjs < request.json > answer.json
const fs = require('fs');
const http = require('http');
const path = require('path');
const puppeteer = require('puppeteer-core');

const EDITOR = path.dirname(require.resolve('@scratch/scratch-gui'));
const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.svg': 'image/svg+xml'};
const FLAGS = [
    '--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking',
    '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader',  // WebGL without a graphics card
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',  // what is tested is on this machine
];

const served = http.createServer((request, response) => {
    const {pathname} = new URL(request.url, 'http://127.0.0.1');
    const file = pathname === '/' ? path.join(__dirname, 'editor.html') : path.join(EDITOR, pathname);
    fs.readFile(file, (error, content) => {
        response.writeHead(error ? 404 : 200, {'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream'});
        response.end(content);
    });
});

// These three run in the page.
const load = async file => {
    await window.opened;
    await window.vm.loadProject(Uint8Array.from(atob(file), letter => letter.charCodeAt(0)).buffer);
};
const values = names => names.map(name => window.vm.runtime.targets.flatMap(
    target => Object.values(target.variables).filter(it => it.name === name).map(it => it.value)
)[0] ?? null);
const reached = (name, least) => window.vm.runtime.targets.some(
    target => Object.values(target.variables).some(it => it.name === name && Number(it.value) >= least)
);

const seconds = count => new Promise(resolve => setTimeout(resolve, 1000 * count));

const run = async ({chromium, file, until, limit, names, picture}) => {
    await new Promise(resolve => served.listen(0, '127.0.0.1', resolve));
    const view = {width: 1600, height: 900};
    const browser = await puppeteer.launch({executablePath: chromium, args: FLAGS, defaultViewport: view});
    try {
        const page = await browser.newPage();
        const errors = [];
        page.on('pageerror', error => errors.push(error.message));
        await page.goto(`http://127.0.0.1:${served.address().port}/`);
        await page.evaluate(load, file);
        await page.click('button[aria-label="Start project"]');
        await page.waitForFunction(reached, {timeout: 1000 * limit}, ...until);
        await page.click('.blocklyToolboxCategory ::-p-text(My Blocks)');
        await seconds(4);  // the palette moves there slowly
        await page.screenshot({path: picture});
        return {values: await page.evaluate(values, names), errors};
    } finally {
        await browser.close();
        served.close();
    }
};

run(JSON.parse(fs.readFileSync(0, 'utf8'))).then(
    answer => process.stdout.write(JSON.stringify(answer)),
    error => { process.stderr.write(`${error.message}\n`); process.exitCode = 1; },
);
