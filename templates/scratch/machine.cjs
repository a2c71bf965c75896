'use strict';
// Runs Scratch projects without a screen. Each line that comes in is a command as JSON, and each has an answer.
//     node machine.cjs vanilla|turbowarp NODE_MODULES
const path = require('path');
const readline = require('readline');

const [kind, packages] = process.argv.slice(2);
for (const name of ['debug', 'error', 'info', 'log', 'warn']) console[name] = () => {};  // only answers go out
const projects = require('./project.cjs')(require(`./${kind}.cjs`)(packages));
const loaded = new Map();

const validate = ({file, sprite}) => new Promise((resolve, reject) => {
    const parse = require(path.join(packages, 'scratch-parser'));
    parse(Buffer.from(file, 'base64'), sprite, error => (error ? reject(error) : resolve(null)));
});

const answer = async ({command, session, dropped, ...given}) => {
    dropped.forEach(number => loaded.delete(number));
    if (command === 'validate') return validate(given);
    if (command === 'load') {
        loaded.set(session, await projects.load(given));
        return null;
    }
    return loaded.get(session)[command](given);
};

const reason = error => {
    if (typeof error === 'string') return error;
    return error instanceof Error ? error.message : JSON.stringify(error);
};

(async () => {
    for await (const line of readline.createInterface({input: process.stdin})) {
        const told = await answer(JSON.parse(line)).then(result => ({result}), error => ({error: reason(error)}));
        process.stdout.write(`${JSON.stringify(told)}\n`);
    }
})();
