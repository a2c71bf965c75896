'use strict';
// Opens a page from disk, runs a script in it, takes a picture, and tells its result, errors and requests.
//     node page.cjs < request.json > answer.json
const fs = require('fs');
const puppeteer = require('puppeteer-core');

const FLAGS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', '--host-resolver-rules=MAP * ~NOTFOUND'];

const run = async ({chromium, file, script, picture, width, height, dark}) => {
    const view = {width, height, deviceScaleFactor: 1};
    const browser = await puppeteer.launch({executablePath: chromium, args: FLAGS, defaultViewport: view});
    try {
        const page = await browser.newPage();
        const errors = [], requests = [];
        page.on('pageerror', error => errors.push(error.message));
        page.on('console', message => message.type() === 'error' && errors.push(message.text()));
        page.on('request', request => requests.push(request.url().slice(0, 80)));
        await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]);
        await page.goto(`file://${file}`);
        await page.waitForFunction('globalThis.playground', {timeout: 60000});
        const result = await page.evaluate(script);
        if (picture) await page.screenshot({path: picture});
        return {result, errors, requests};
    } finally {
        await browser.close();
    }
};

run(JSON.parse(fs.readFileSync(0, 'utf8'))).then(
    answer => process.stdout.write(JSON.stringify(answer)),
    error => { process.stderr.write(`${error.message}\n`); process.exitCode = 1; },
);
