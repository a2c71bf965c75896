// Gives Node.js the interface of browsers to WebGPU, by the package `webgpu`, which is Dawn.
import { createRequire } from "node:module";

const { create, globals } = createRequire(`${process.cwd()}/`)("webgpu");
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) }, configurable: true });
