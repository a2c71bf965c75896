// Trains the emitted module, and draws what it has learned. All data are in the element #data.
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const FRAME_MS = 12; // of the 16 in a frame, so that the page stays responsive
const REDRAW_MS = 120; // between pictures of predictions, which cost more than steps

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const classColour = k => (k < 3 ? colour(`class-${k}`) : `hsl(${(k * 137) % 360} 55% 55%)`);

function fail(error) {
    $("error").textContent = `This page met an error: ${error.message}`;
    $("error").hidden = false;
    throw error;
}

/** Imports the text of an ES module. */
async function imported(text) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    try {
        return await import(url);
    } finally {
        URL.revokeObjectURL(url);
    }
}

/** A canvas cleared for drawing, with as many pixels as the screen has for it. */
function prepared(canvas) {
    const { width, height } = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    return { context, width, height };
}

// Samples

const ARRAYS = { Float32Array, Float64Array };

/** Rows of numbers from base64. */
function table({ type, row, base64 }) {
    const bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
    return { values: new ARRAYS[type](bytes.buffer), width: row.reduce((length, size) => length * size, 1) };
}

/** Rows from one on; after the last comes the first. */
function rows({ values, width }, first, count) {
    const end = (first + count) * width;
    if (end <= values.length) return values.subarray(first * width, end);
    const found = new values.constructor(count * width);
    found.set(values.subarray(first * width));
    found.set(values.subarray(0, end - values.length), values.length - first * width);
    return found;
}

const best = scores => scores.reduce((k, score, j) => (score > scores[k] ? j : k), 0);

/** Shares of the classes, which add up to 1. */
function shares(scores, logits) {
    const greatest = Math.max(...scores);
    const parts = Array.from(scores, score => (logits ? Math.exp(score - greatest) : Math.max(score, 0)));
    const sum = parts.reduce((a, b) => a + b, 0) || 1;
    return parts.map(part => part / sum);
}

// Pictures

/** The losses, averaged over the steps of a pixel. */
function drawCurve(losses) {
    const { context, width, height } = prepared($("curve")), left = 48, bottom = 24, top = 12, right = 12;
    const wide = width - left - right, high = height - top - bottom;
    const span = Math.max(losses.length, 20), points = [];
    const each = Math.max(1, Math.ceil(losses.length / wide));
    for (let k = 0; k < losses.length; k += each) {
        const part = losses.slice(k, k + each);
        points.push([k, part.reduce((a, b) => a + b, 0) / part.length]);
    }
    const positive = points.map(([, loss]) => loss).filter(loss => loss > 0 && Number.isFinite(loss));
    const log = Math.log10, greatest = log(Math.max(...positive, 1e-6)) + 0.05;
    const least = Math.min(log(Math.min(...positive, 10 ** greatest)) - 0.05, greatest - 0.5);
    const x = k => left + (wide * k) / span, y = loss => top + (high * (greatest - log(loss))) / (greatest - least);
    context.fillStyle = colour("soft");
    context.strokeStyle = colour("line");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let power = Math.floor(least); power <= greatest; power++) {
        for (const digit of greatest - least > 2.5 ? [1] : [1, 2, 5]) {
            const level = digit * 10 ** power;
            if (log(level) < least || log(level) > greatest) continue;
            context.beginPath();
            context.moveTo(left, y(level));
            context.lineTo(width - right, y(level));
            context.stroke();
            context.fillText(String(Number(level.toPrecision(1))), left - 6, y(level));
        }
    }
    context.textAlign = "center";
    for (const part of [0, 0.5, 1]) context.fillText(String(Math.round(span * part)), left + wide * part * 0.98, height - 10);
    context.strokeStyle = colour("accent");
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.beginPath();
    for (const [k, loss] of points) if (loss > 0) context.lineTo(x(k), y(loss));
    context.stroke();
}

/** Predictions over the plane of two features; the others have their means. */
function regionsView(samples, predict) {
    const { x, y, count, features, classes, logits } = samples, SIDE = 48;
    const column = k => Array.from({ length: count }, (_, row) => x.values[row * x.width + k]);
    const means = features.map((_, k) => column(k).reduce((a, b) => a + b, 0) / count);
    const labels = Array.from({ length: count }, (_, row) => (y.width === 1 ? y.values[row] : best(rows(y, row, 1))));
    for (const [id, chosen] of [["across", features.length - 2], ["up", features.length - 1]]) {
        $(id).append(...features.map((name, k) => new Option(name, k, k === chosen, k === chosen)));
        $(id).addEventListener("change", () => draw());
    }
    for (const [k, name] of classes.entries()) {
        const item = document.createElement("span"), swatch = document.createElement("i");
        swatch.className = "swatch";
        swatch.style.background = classColour(k);
        item.append(swatch, name);
        $("legend").append(item);
    }
    const small = Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE });
    const range = values => {
        const least = Math.min(...values), greatest = Math.max(...values), margin = 0.06 * (greatest - least);
        return [least - margin, greatest + margin];
    };
    const probe = document.createElement("canvas").getContext("2d");
    const channels = k => {
        probe.fillStyle = classColour(k);
        probe.fillRect(0, 0, 1, 1);
        return probe.getImageData(0, 0, 1, 1).data;
    };
    function draw() {
        const [a, b] = [Number($("across").value), Number($("up").value)];
        const columns = [column(a), column(b)], [[left, right], [low, high]] = columns.map(range);
        const grid = new Float32Array(SIDE * SIDE * x.width);
        for (let i = 0; i < SIDE * SIDE; i++) {
            grid.set(means, i * x.width);
            grid[i * x.width + a] = left + ((right - left) * ((i % SIDE) + 0.5)) / SIDE;
            grid[i * x.width + b] = high - ((high - low) * (Math.floor(i / SIDE) + 0.5)) / SIDE;
        }
        const scores = predict(SIDE * SIDE, grid), pixels = new ImageData(SIDE, SIDE), palette = classes.map((_, k) => channels(k));
        for (let i = 0; i < SIDE * SIDE; i++) {
            const parts = shares(scores.subarray(i * classes.length, (i + 1) * classes.length), logits);
            for (let c = 0; c < 3; c++) pixels.data[i * 4 + c] = parts.reduce((sum, part, k) => sum + part * palette[k][c], 0);
            pixels.data[i * 4 + 3] = 40 + 120 * Math.max(...parts);
        }
        small.getContext("2d").putImageData(pixels, 0, 0);
        const { context, width, height } = prepared($("regions"));
        context.imageSmoothingEnabled = true;
        context.drawImage(small, 0, 0, width, height);
        context.strokeStyle = colour("card");
        for (let row = 0; row < count; row++) {
            context.fillStyle = classColour(labels[row]);
            context.beginPath();
            const at = (value, least, greatest) => (value - least) / (greatest - least);
            context.arc(width * at(columns[0][row], left, right), height * (1 - at(columns[1][row], low, high)), 4.5, 0, 7);
            context.fill();
            context.stroke();
        }
    }
    return draw;
}

/** A digit drawn by hand, reduced to 8 × 8 counts as the samples were: of 4 × 4 blocks of a bitmap of 32 × 32. */
function digitView(samples, predict) {
    const { x, count, classes, logits } = samples, pad = $("pad"), SIDE = 32, PEN = 3.4;
    const bars = classes.map(name => {
        const item = document.createElement("li");
        item.append(name, document.createElement("i"));
        $("bars").append(item);
        return item;
    });
    const bitmap = Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE });
    let strokes = [], shown = 0, pixels = x.values.slice(0, x.width), drawing = false;
    const stroke = (context, width, place) => {
        Object.assign(context, { lineWidth: width, lineCap: "round", lineJoin: "round", strokeStyle: "#000" });
        for (const points of strokes) {
            context.beginPath();
            for (const point of [...points, points.at(-1)]) context.lineTo(...place(point));
            context.stroke();
        }
    };
    function reduced() {
        const all = strokes.flat(), [across, down] = [0, 1].map(axis => all.map(point => point[axis]));
        const box = [across, down].map(values => [Math.min(...values), Math.max(...values)]);
        const scale = (SIDE - PEN) / Math.max(box[0][1] - box[0][0], box[1][1] - box[1][0], 40);
        const middle = box.map(([least, greatest]) => (least + greatest) / 2);
        const context = bitmap.getContext("2d", { willReadFrequently: true });
        context.clearRect(0, 0, SIDE, SIDE);
        stroke(context, PEN, point => point.map((value, axis) => SIDE / 2 + (value - middle[axis]) * scale));
        const ink = context.getImageData(0, 0, SIDE, SIDE).data, counts = new Float32Array(64);
        for (let i = 0; i < SIDE * SIDE; i++) {
            if (ink[i * 4 + 3] > 127) counts[(i >> 7) * 8 + ((i & 31) >> 2)] += 1 / 16;
        }
        return counts;
    }
    function draw() {
        const context = pad.getContext("2d");
        context.clearRect(0, 0, pad.width, pad.height);
        if (strokes.length) pixels = reduced();
        const image = new ImageData(8, 8);
        for (const [i, value] of pixels.entries()) image.data.set([0, 0, 0, 255 * value], i * 4);
        $("seen").style.background = "#fff";
        $("seen").getContext("2d").putImageData(image, 0, 0);
        if (strokes.length) {
            stroke(context, 18, point => point);
        } else {
            context.imageSmoothingEnabled = false;
            context.drawImage($("seen"), 0, 0, pad.width, pad.height);
        }
        const parts = shares(predict(1, pixels), logits), winner = best(parts);
        bars.forEach((item, k) => {
            item.lastChild.style.width = `${100 * parts[k]}%`;
            item.className = k === winner ? "best" : "";
        });
    }
    const point = event => {
        const { left, top, width, height } = pad.getBoundingClientRect();
        return [((event.clientX - left) * pad.width) / width, ((event.clientY - top) * pad.height) / height];
    };
    pad.addEventListener("pointerdown", event => {
        pad.setPointerCapture(event.pointerId);
        drawing = true;
        strokes.push([point(event)]);
        draw();
    });
    pad.addEventListener("pointermove", event => {
        if (!drawing) return;
        strokes.at(-1).push(point(event));
        draw();
    });
    for (const end of ["pointerup", "pointercancel"]) pad.addEventListener(end, () => (drawing = false));
    const show = values => {
        strokes = [];
        pixels = values;
        draw();
    };
    $("clear").addEventListener("click", () => show(new Float32Array(64)));
    $("next").addEventListener("click", () => show(rows(x, ++shown % count, 1).slice()));
    return draw;
}

/** Targets and predictions in the order of the first feature's samples in time. */
function seriesView(samples, predict) {
    const { x, y, count, order } = samples;
    return () => {
        const predicted = predict(count, x.values), { context, width, height } = prepared($("series"));
        const greatest = Math.max(...y.values), least = Math.min(...y.values, 0), margin = 14;
        const line = (values, style) => {
            context.strokeStyle = style;
            context.lineWidth = 1.6;
            context.beginPath();
            order.forEach((row, k) => {
                const up = (values[row] - least) / (greatest - least);
                context.lineTo(margin + ((width - 2 * margin) * k) / (count - 1), height - margin - (height - 2 * margin) * up);
            });
            context.stroke();
        };
        line(y.values, colour("soft"));
        line(predicted, colour("class-2"));
    };
}

/** A text that the model goes on with, after a sample: classes are characters, drawn by their scores. */
function textView(samples, predict) {
    const { x, classes, logits } = samples, LENGTH = 90, SHARPNESS = 1.25; // the inverse of a temperature of 0.8
    return () => {
        const seen = Array.from(rows(x, 0, 1));
        for (let k = 0; k < LENGTH; k++) {
            const scores = predict(1, x.values.constructor.from(seen.slice(-x.width))).slice(-classes.length);
            let left = Math.random();
            const parts = shares(scores.map(score => score * SHARPNESS), logits);
            const chosen = parts.findIndex(part => (left -= part) < 0);
            seen.push(chosen < 0 ? best(parts) : chosen);
        }
        const text = seen.map(k => classes[k]).join("");
        $("text").replaceChildren(Object.assign(document.createElement("b"), { textContent: text.slice(0, x.width) }), text.slice(x.width));
    };
}

const VIEWS = { regions: regionsView, digit: digitView, series: seriesView, text: textView };

// Training

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
    return { train, weights };
}

// Sources

const panes = [];
let lit = null;

/** Lights all occurrences of a parameter, or none. */
function light(chosen) {
    lit = lit === chosen ? null : chosen;
    for (const chip of $("parameters").children) chip.setAttribute("aria-pressed", String(Number(chip.value) === lit));
    for (const node of document.querySelectorAll(".diagram .node")) {
        const name = data.parameters[lit]?.name;
        node.classList.toggle("lit", name !== undefined && node.querySelector("text")?.textContent === name);
    }
    for (const pane of panes) pane.light();
}

/** A source with its parameters marked, for one target of many. */
function pane(chosen) {
    const article = $("source").content.cloneNode(true).firstElementChild;
    const [select, code, found] = ["select", "pre code", ".found"].map(each => article.querySelector(each));
    const places = new Map(data.parameters.flatMap(({ identifiers }, k) => identifiers.map(name => [name, k])));
    const escaped = [...places.keys()].sort((a, b) => b.length - a.length).map(name => name.replaceAll(".", "\\."));
    const word = new RegExp(`(?<![\\w.])(${escaped.join("|")})(?![\\w.])`);
    let here = 0;
    select.append(...data.sources.map(({ target }, k) => new Option(target, k, k === chosen, k === chosen)));
    function open() {
        const { text, file } = data.sources[Number(select.value)];
        article.querySelector(".name").textContent = file;
        code.replaceChildren(...text.split(word).map((part, k) => {
            if (k % 2 === 0) return part;
            const mark = document.createElement("mark");
            [mark.textContent, mark.dataset.parameter] = [part, places.get(part)];
            return mark;
        }));
        shine();
    }
    const marks = () => [...code.querySelectorAll("mark.lit")];
    function shine() {
        for (const mark of code.querySelectorAll("mark")) mark.classList.toggle("lit", Number(mark.dataset.parameter) === lit);
        found.textContent = lit === null ? "" : `${marks().length} times`;
    }
    function go(to) {
        const all = marks();
        for (const mark of all) mark.classList.remove("here");
        if (!all.length) return;
        here = (to + all.length) % all.length;
        all[here].classList.add("here");
        const box = code.parentElement;
        box.scrollTop += all[here].getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
        found.textContent = `${here + 1} of ${all.length}`;
    }
    select.addEventListener("change", () => { open(); go(0); });
    article.querySelector(".previous").addEventListener("click", () => go(here - 1));
    article.querySelector(".following").addEventListener("click", () => go(here + 1));
    code.addEventListener("click", ({ target }) => target.matches("mark") && light(Number(target.dataset.parameter)));
    code.addEventListener("pointerover", ({ target }) => {
        if (lit === null && target.matches("mark")) preview(Number(target.dataset.parameter));
    });
    code.addEventListener("pointerout", () => lit === null && preview(null));
    $("sources").append(article);
    open();
    panes.push({
        light: () => { shine(); go(0); },
        preview: k => code.querySelectorAll("mark").forEach(mark => mark.classList.toggle("lit", Number(mark.dataset.parameter ?? -1) === k)),
    });
}

const preview = k => panes.forEach(each => each.preview(k));

function sources() {
    for (const [k, { name, type }] of data.parameters.entries()) {
        const chip = document.createElement("button"), small = document.createElement("small");
        small.textContent = ` ${type}`;
        chip.append(name, small);
        chip.value = k;
        chip.setAttribute("aria-pressed", "false");
        chip.addEventListener("click", () => light(k));
        $("parameters").append(chip);
    }
    pane(0);
    pane(Math.min(1, data.sources.length - 1));
}

try {
    sources();
    globalThis.playground = data.samples ? await training() : {};
} catch (error) {
    fail(error);
}
