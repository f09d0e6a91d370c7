import { describe, expect, it } from "vitest";
import { formatCountdown, formatPrice } from "./format";
import { autoStopRule, autoStopText, type Flavor, flavorSize, hourlySum, perHour } from "./machine";

const now = Date.parse("2026-01-01T00:00:00Z");
const in_ = (s: number) => new Date(now + s * 1000).toISOString();

it("counts down as a clock does", () => {
  expect(formatCountdown(1_390_000)).toBe("23:10");
  expect(formatCountdown(3_730_000)).toBe("1:02:10");
  expect(formatCountdown(900)).toBe("0:01");
  expect(formatCountdown(-5_000)).toBe("0:00");
});

it("writes prices with the digits that they have, and two at least", () => {
  expect(formatPrice("0.04", "USD")).toBe("$0.04");
  expect(formatPrice("0.5", "USD")).toBe("$0.50");
  expect(formatPrice("0.012500", "USD")).toBe("$0.0125");
  expect(formatPrice("1", null)).toBe("1.00");
  expect(formatPrice("1.5", "credits")).toBe("1.50 credits");
});

describe("auto-stop", () => {
  const machine = { state: "RUNNING", autoStop: "1h", autoStopAt: null } as const;
  it("ticks while the machine is idle", () => {
    expect(autoStopText({ ...machine, autoStopAt: in_(1390) }, now)).toEqual({
      text: "stops in 23:10",
      counting: true,
    });
    expect(autoStopText({ ...machine, autoStopAt: in_(-3) }, now).text).toBe("stops now");
  });
  it("says that it is in use, and what comes after", () => {
    expect(autoStopText(machine, now)).toEqual({ text: "in use; stops 1 hour after", counting: false });
  });
  it("says the rule while it does not run, and that it never stops", () => {
    expect(autoStopText({ ...machine, state: "STOPPED" }, now).text).toBe("stops after 1 hour idle");
    expect(autoStopText({ ...machine, autoStop: "never" }, now).text).toBe("never stops by itself");
    expect(autoStopRule("30m")).toBe("stops after 30 minutes idle");
  });
});

it("adds what machines cost, exactly, by currency", () => {
  const cost = (pricePerHour: string | null, currency: string | null = "USD") => ({ pricePerHour, currency });
  expect(hourlySum([cost("0.1"), cost("0.2"), cost(null)])).toBe("$0.30 per hour");
  expect(hourlySum([cost("0.0125"), cost("1", "EUR")])).toBe("$0.0125 and €1.00 per hour");
  expect(hourlySum([cost(null, null)])).toBe("no price known");
  expect(perHour(cost(null))).toBe("no price known");
});

it("says how large a flavor is", () => {
  const flavor: Flavor = {
    name: "gpu.1",
    cores: 1,
    memory: String(4 * 2 ** 30),
    gpus: 1,
    gpu: "A10",
    available: true,
    limits: null,
    pricePerHour: "0.64",
    currency: "USD",
  };
  expect(flavorSize(flavor)).toBe("1 core, 4.0 GiB, 1 GPU (A10)");
  expect(flavorSize({ ...flavor, cores: 2, gpus: 0, gpu: null })).toBe("2 cores, 4.0 GiB");
});
