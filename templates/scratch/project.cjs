'use strict';
// One project in a virtual machine of its own, and what can be done with it.
const {pack, unpack} = require('./values.cjs');
const stage = require('./stage.json');

const FRAME = 1000 / 30;  // ms; scripts that do not end get three quarters of it, as on the screen
const CALL = 'call';  // the id of the block that stands for the one a person clicks in the palette

class Project {
    constructor (vm) {
        this.vm = vm;
        this.runtime = vm.runtime;
        this.runtime.currentStepTime = FRAME;
        this.uncompiled = [];
        vm.on('COMPILE_ERROR', (target, error) => this.uncompiled.push(`${target.getName()}: ${error}`));
    }

    find (type, name) {
        for (const target of this.runtime.targets) {
            const found = Object.values(target.variables).find(it => it.type === type && it.name === name);
            if (found) return found;
        }
        return null;
    }

    known (type, name) {
        const found = this.find(type, name);
        if (found) return found;
        const all = this.runtime.targets.flatMap(target => Object.values(target.variables));
        const names = all.filter(it => it.type === type).map(it => it.name);
        throw new Error(`there is no ${type || 'variable'} "${name}", only: ${names.join(', ')}`);
    }

    has ({type, name}) { return this.find(type, name) !== null; }

    get ({type, name}) {
        const {value} = this.known(type, name);
        return pack(type === 'list' ? value : [value]);
    }

    set ({type, name, value}) {
        const items = unpack(value);
        const found = this.known(type, name);
        found.value = type === 'list' ? items : items[0];
        found._monitorUpToDate = false;
        return null;
    }

    frame () {
        this.runtime._step();
        if (this.uncompiled.length) throw new Error(`cannot compile ${this.uncompiled.splice(0).join('; ')}`);
    }

    finish (threads) {
        while (threads.some(thread => this.runtime.threads.includes(thread))) this.frame();
        return null;
    }

    call ({block, values}) {
        const target = this.runtime.targets.find(it => it.blocks.getProcedureDefinition(block));
        if (!target) throw new Error(`there is no custom block "${block}"`);
        const [, ids] = target.blocks.getProcedureParamNamesIdsAndDefaults(block);
        const given = unpack(values);
        if (given.length !== ids.length) {
            throw new Error(`"${block}" takes ${ids.length} arguments, not ${given.length}`);
        }
        const palette = this.runtime.flyoutBlocks;
        palette.deleteAllBlocks();
        const made = (id, more) => palette.createBlock({
            id, inputs: {}, fields: {}, next: null, parent: null, shadow: false, topLevel: true, ...more,
        });
        ids.forEach((_, at) => made(`${CALL} ${at}`, {
            opcode: 'text', fields: {TEXT: {name: 'TEXT', value: given[at]}}, parent: CALL, shadow: true, topLevel: false,
        }));
        const inputs = ids.map((name, at) => [name, {name, block: `${CALL} ${at}`, shadow: `${CALL} ${at}`}]);
        const mutation = {tagName: 'mutation', children: [], proccode: block, argumentids: JSON.stringify(ids)};
        made(CALL, {opcode: 'procedures_call', inputs: Object.fromEntries(inputs), mutation});
        return this.finish([this.runtime._pushThread(CALL, target, {stackClick: true})]);
    }

    broadcast ({message}) {
        const threads = this.runtime.startHats('event_whenbroadcastreceived', {BROADCAST_OPTION: message});
        if (!threads.length) throw new Error(`no script starts when "${message}" is received`);
        return this.finish(threads);
    }

    flag ({frames}) {
        this.vm.greenFlag();
        return this.run({frames});
    }

    run ({frames}) {
        for (let n = 0; frames === null || n < frames; n++) {
            if (frames === null && this.runtime.threads.every(thread => thread.updateMonitor)) break;
            this.frame();
        }
        return null;
    }

    seconds ({message, repeats, warmUp}) {
        const times = count => { for (let n = 0; n < count; n++) this.broadcast({message}); };
        times(warmUp);
        const before = process.cpuUsage();
        times(repeats);
        const {user, system} = process.cpuUsage(before);
        return (user + system) / 1e6 / repeats;
    }

    json () { return this.vm.toJSON(); }
}

module.exports = VirtualMachine => ({
    async load ({file, sprite}) {
        const vm = new VirtualMachine();
        const project = new Project(vm);
        const bytes = Buffer.from(file, 'base64');
        await vm.loadProject(sprite ? JSON.stringify(stage) : bytes);
        if (sprite) await vm.addSprite(bytes);
        return project;
    },
});
