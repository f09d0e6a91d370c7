/**
 * A cron line in words, such as "At 02:30, Monday through Friday"; null when it is not understood.
 */
export async function describeCron(cron: string): Promise<string | null> {
  const { toString: describe } = await import("cronstrue");
  try {
    const words = describe(cron, { use24HourTimeFormat: true, throwExceptionOnParseError: true });
    return /^At \d\d:\d\d$/.test(words) ? `${words}, every day` : words;
  } catch {
    return null;
  }
}

/** Time zones this browser knows, UTC first. */
export const timeZones = (): string[] => [
  "UTC",
  ...Intl.supportedValuesOf("timeZone").filter((z) => z !== "UTC"),
];
