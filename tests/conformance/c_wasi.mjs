// Runs a program for WASI: node c_wasi.mjs program.wasm arguments
import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", args: argv.slice(2) });
const program = await WebAssembly.compile(await readFile(argv[2]));
wasi.start(await WebAssembly.instantiate(program, wasi.getImportObject()));
