import { useEffect, useRef, useState } from "react";

/** Copies text, also where the page is not a secure context (plain HTTP on another machine). */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "copy-source";
  const host = document.querySelector('[role="dialog"]') ?? document.body;
  host.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Copies, and says so for two seconds. */
export function useCopy() {
  const [copied, setCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async (text: string) => {
    await copyText(text);
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), 2_000);
  };
  return { copied, copy };
}
