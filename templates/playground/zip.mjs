// Writes zip archives of texts, without compression: PKWARE's APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16.

/** CRC-32, a bit at a time. */
function checksum(bytes) {
    let crc = ~0;
    for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc >>> 0;
}

/** Bytes of numbers, each with its width of 2 or 4 bytes, little-endian. */
function packed(numbers) {
    const bytes = new Uint8Array(numbers.reduce((sum, [, width]) => sum + width, 0));
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (const [number, width] of numbers) {
        if (width === 2) view.setUint16(at, number, true);
        else view.setUint32(at, number, true);
        at += width;
    }
    return bytes;
}

/** A zip archive of texts by name. */
function zipped(texts) {
    const encoder = new TextEncoder(), files = [], directory = [];
    const length = parts => parts.reduce((sum, part) => sum + part.length, 0);
    for (const [name, text] of Object.entries(texts)) {
        const label = encoder.encode(name), bytes = encoder.encode(text);
        const offset = length(files), size = bytes.length, UTF8 = 1 << 11, DATE = 1 << 5 | 1; // in 1980
        const common = [
            [20, 2], [UTF8, 2], [0, 2], [0, 2], [DATE, 2], [checksum(bytes), 4], [size, 4], [size, 4], [label.length, 2], [0, 2],
        ];
        files.push(packed([[0x04034b50, 4], ...common]), label, bytes);
        directory.push(packed([[0x02014b50, 4], [20, 2], ...common, [0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]]), label);
    }
    const count = directory.length / 2;
    const end = [[0x06054b50, 4], [0, 2], [0, 2], [count, 2], [count, 2], [length(directory), 4], [length(files), 4], [0, 2]];
    return new Blob([...files, ...directory, packed(end)]);
}
