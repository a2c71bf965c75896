'use strict';
// Serves files on localhost, where browsers have WebGPU, runs a script in a page there, and tells its result and errors.
//     node module.cjs < request.json > answer.json
const fs = require('fs');
const http = require('http');
const puppeteer = require('puppeteer-core');

const FLAGS = [
    '--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking',
    '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader',  // WebGPU without a graphics card
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost',  // what is tested is on this machine
];

const ISOLATED = {'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp'};

const TYPES = {html: 'text/html', wasm: 'application/wasm'};

const serve = (files, headers) => http.createServer((request, response) => {
    const name = request.url.slice(1) || 'index.html';
    const type = TYPES[name.split('.').at(-1)] ?? 'text/javascript';
    response.writeHead(name in files ? 200 : 404, {'Content-Type': `${type}; charset=utf-8`, ...headers});
    response.end(files[name]);
});

const run = async ({chromium, files, binary = {}, script, isolated}) => {
    const whole = {'index.html': '<!doctype html><link rel="icon" href="data:">', ...files};
    for (const [name, content] of Object.entries(binary)) whole[name] = Buffer.from(content, 'base64');
    const served = serve(whole, isolated ? ISOLATED : {});
    await new Promise(resolve => served.listen(0, 'localhost', resolve));
    const browser = await puppeteer.launch({executablePath: chromium, args: FLAGS});
    try {
        const page = await browser.newPage();
        const errors = [];
        page.on('pageerror', error => errors.push(error.message));
        page.on('console', message => message.type() === 'error' && errors.push(message.text()));
        await page.goto(`http://localhost:${served.address().port}/`);
        return {result: await page.evaluate(script), errors};
    } finally {
        await browser.close();
        served.close();
    }
};

run(JSON.parse(fs.readFileSync(0, 'utf8'))).then(
    answer => process.stdout.write(JSON.stringify(answer)),
    error => { process.stderr.write(`${error.message}\n`); process.exitCode = 1; },
);
