import { useEffect, useState } from "react";
import { MachineMetricsDocument } from "@/gql/gen";
import { subscribe } from "@/lib/socket";
import { addSamples, hour, type Sample, toSample } from "./samples";

/** The history arrives as a burst of single samples; they are added together. */
const burstMs = 100;

/** A machine's samples of the last hour, and then live. Key the component by the machine. */
export function useSamples(id: string): { samples: readonly Sample[]; failure: string | null } {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let came: Sample[] = [];
    let last = Date.now() - hour;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      timer = undefined;
      const batch = came;
      came = [];
      setSamples((held) => addSamples(held, batch));
    };
    const stop = subscribe(
      MachineMetricsDocument,
      // After a broken connection it continues from the newest sample.
      () => ({ id, since: new Date(last).toISOString() }),
      {
        next: ({ machineMetrics }) => {
          const s = toSample(machineMetrics);
          last = Math.max(last, s.at);
          came.push(s);
          timer ??= setTimeout(flush, burstMs);
        },
        error: (e) => setFailure(messageOf(e)),
      },
    );
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [id]);
  return { samples, failure };
}

function messageOf(e: unknown): string {
  const first = Array.isArray(e) ? (e[0] as { message?: string } | undefined) : undefined;
  return first?.message ?? "The measurements could not be read.";
}
