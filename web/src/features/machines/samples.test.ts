import { expect, it } from "vitest";
import { addSamples, hour, rangeText, type Sample, seriesOf, toSample } from "./samples";

const sample = (at: number, more: Partial<Sample> = {}): Sample => ({
  at,
  cpu: 0.5,
  cores: 2,
  memory: 2 ** 30,
  memoryTotal: 2 ** 32,
  disk: 0,
  diskTotal: 2 ** 33,
  gpus: [],
  ...more,
});
const times = (all: readonly Sample[]) => all.map((s) => s.at);

it("adds each sample once, also if the history arrives again", () => {
  const held = addSamples([], [sample(1), sample(2)]);
  expect(times(addSamples(held, [sample(1), sample(2), sample(3)]))).toEqual([1, 2, 3]);
  expect(addSamples(held, [sample(2)])).toBe(held);
});

it("keeps an hour", () => {
  const held = addSamples([], [sample(0), sample(5_000)]);
  expect(times(addSamples(held, [sample(hour + 1_000)]))).toEqual([5_000, hour + 1_000]);
});

it("describes the current and the maximum use", () => {
  const [cpu, memory, disk] = seriesOf([sample(0, { cpu: 1.5 }), sample(5_000)]);
  expect(cpu).toMatchObject({ now: "0.50 of 2 cores (25 %)", most: "1.50 of 2 cores (75 %)", top: 2 });
  expect(memory?.now).toBe("1.0 GiB of 4.0 GiB (25 %)");
  expect(disk?.now).toBe("0 B of 8.0 GiB (0 %)");
  expect(seriesOf([])).toEqual([]);
});

it("has two for each GPU, also while one was not there before", () => {
  const gpus = [{ name: "A10", load: 0.5, memory: 2 ** 30, memoryTotal: 2 ** 31 }];
  const all = seriesOf([sample(0), sample(5_000, { gpus })]);
  expect(all.map((s) => s.name)).toEqual(["CPU", "Memory", "Disk", "GPU 1, A10", "Memory of GPU 1"]);
  expect(all[3]).toMatchObject({ now: "50 %", points: [{ at: 5_000, value: 0.5 }] });
});

it("names the range that is drawn", () => {
  expect([5 * 60_000, 7.9 * 60_000, hour - 1, hour].map(rangeText)).toEqual([
    "5 minutes",
    "7 minutes",
    "59 minutes",
    "hour",
  ]);
});

it("reads what the server sends", () => {
  const raw = {
    at: "1970-01-01T00:00:01Z",
    cpu: 1,
    cores: 2,
    memory: "5",
    memoryTotal: "6",
    disk: "7",
    diskTotal: "8",
    gpus: [],
  };
  expect(toSample(raw)).toMatchObject({ at: 1000, memory: 5, diskTotal: 8 });
});
