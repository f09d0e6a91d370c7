import { stripAnsi, visible } from "@/ui/ansi";
import { fromBase64 } from "@/ui/logStore";

/**
 * The text of the end of a log, without colours. If it has the requested length, its first line is
 * probably cut and is left out.
 */
export function logText(base64: string, asked: number): string {
  const bytes = fromBase64(base64);
  const from = bytes.length < asked ? 0 : bytes.indexOf(10) + 1;
  const lines = new TextDecoder().decode(bytes.subarray(from)).split("\n");
  return lines.map((l) => stripAnsi(visible(l.replace(/\r$/, "")))).join("\n");
}
