// Trains the emitted module.

function download(bytes, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function training() {
    const { createModel } = await imported(data.module), { rate } = data;
    const samples = { ...data.samples, x: table(data.samples.x), y: table(data.samples.y) };
    const { x, y, count } = samples;
    let model = await createModel(), losses = [], first = 0, running = false, drawn = 0;
    const predict = (size, values) => model.predict(size, values);

    function step() {
        const batch = Number($("batch").value);
        const loss = model.step(batch, rows(x, first, batch), rows(y, first, batch));
        first = (first + batch) % count;
        losses.push(loss);
        return loss;
    }
    function accuracy() {
        const scores = predict(count, x.values), wide = samples.classes.length;
        let right = 0;
        for (let row = 0; row < count; row++) {
            const label = y.width === 1 ? y.values[row] : best(rows(y, row, 1));
            right += best(scores.subarray(row * wide, (row + 1) * wide)) === label;
        }
        return right / count;
    }
    const drawView = VIEWS[samples.view]?.(samples, predict) ?? (() => {});
    function show() {
        $("steps").textContent = losses.length.toLocaleString("en");
        $("loss").textContent = losses.length ? losses.at(-1).toPrecision(4) : "–";
        if (samples.classifies) $("accuracy").textContent = `${(100 * accuracy()).toFixed(1)}%`;
        drawCurve(losses);
        drawView();
        drawn = performance.now();
    }
    function stop() {
        running = false;
        $("train").textContent = "Train";
        $("train").setAttribute("aria-pressed", "false");
        show();
    }
    function frame() {
        if (!running) return;
        const begin = performance.now();
        do {
            if (!Number.isFinite(step())) {
                stop();
                $("note").textContent = "The loss is no longer finite: choose a smaller learning rate, and start again.";
                return;
            }
        } while (performance.now() - begin < FRAME_MS);
        if (performance.now() - drawn > REDRAW_MS) show();
        requestAnimationFrame(frame);
    }
    function setRate() {
        if (!rate) return;
        const value = 10 ** Number($("rate").value);
        model[rate.table][rate.name][0] = value;
        $("rate-value").textContent = String(Number(value.toPrecision(3)));
    }

    $("training").hidden = false;
    $("accuracy-figure").hidden = !samples.classifies;
    if (VIEWS[samples.view]) $(`view-${samples.view}`).hidden = false;
    $("note").textContent = samples.note;
    Object.assign($("batch"), { max: count, value: samples.batch });
    $("batch-value").textContent = samples.batch;
    $("batch").addEventListener("input", () => ($("batch-value").textContent = $("batch").value));
    $("rate-label").hidden = !rate;
    if (rate) {
        const middle = Math.log10(rate.value);
        Object.assign($("rate"), { min: middle - 2, max: middle + 1, step: "any", value: middle });
        $("rate-value").textContent = rate.value;
        $("rate").addEventListener("input", setRate);
    }
    $("train").addEventListener("click", () => {
        if (running) return stop();
        running = true;
        $("train").textContent = "Pause";
        $("train").setAttribute("aria-pressed", "true");
        requestAnimationFrame(frame);
    });
    $("step").addEventListener("click", () => {
        step();
        show();
    });
    $("reset").addEventListener("click", async () => {
        model = await createModel();
        [losses, first] = [[], 0];
        if (Number($("rate").value) !== Math.log10(rate?.value)) setRate();
        $("note").textContent = samples.note;
        show();
    });
    // The file has the arrays of the module as `catgrad emit` writes it, whose rate is a constant.
    const { createModel: plainModel } = await imported(data.sources.find(source => source.target === data.trains).text);
    const copied = (from, to) => {
        for (const part of ["state", "buffers", "parameters"]) {
            for (const name in to[part] ?? {}) if (from[part]?.[name]) to[part][name].set(from[part][name]);
        }
        return to;
    };
    const weights = async () => copied(model, await plainModel()).save();
    $("save").addEventListener("click", async () => download(await weights(), `${data.name}.safetensors`));
    /** The sprite of the model, with the arrays that it has now. */
    const sprite = () => {
        const { files, lists, main } = data.sprite, project = JSON.parse(files[main]);
        const arrays = { ...model.state, ...model.buffers, ...model.parameters };
        for (const list of Object.values(project.lists)) {
            const array = arrays[lists[list[0]]];
            if (array) list[1] = Array.from(array);
        }
        return zipped({ ...files, [main]: JSON.stringify(project) });
    };
    $("sprite").hidden = !data.sprite;
    $("sprite").addEventListener("click", () => download(sprite(), `${data.name}.sprite3`));
    $("load").addEventListener("change", async () => {
        try {
            const file = new Uint8Array(await $("load").files[0].arrayBuffer());
            copied(await plainModel({ weights: file }), model);
            $("note").textContent = "The weights are loaded.";
        } catch (error) {
            $("note").textContent = error.message;
        }
        show();
    });
    window.addEventListener("resize", show);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
    show();
    /** Trains some steps at once, and returns their losses: for the console, and tests. */
    const train = steps => {
        const found = Array.from({ length: steps }, step);
        show();
        return found;
    };
    return { train, weights, sprite };
}
