// Pictures of what the emitted module has learned. All data of the page are in the element #data.
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
    const log = Math.log10, greatest = log(positive.length ? Math.max(...positive) : 1) + 0.05;
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
            context.fillText(level < 1e-3 || level >= 1e5 ? level.toExponential(0) : String(Number(level.toPrecision(1))), left - 6, y(level));
        }
    }
    for (const [part, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
        context.textAlign = align;
        context.fillText(String(Math.round(span * part)), left + wide * part, height - 10);
    }
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
