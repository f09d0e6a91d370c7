import { Button, Menu } from "@mantine/core";
import { IconDownload, IconPlayerStop } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import { useCopy } from "@/lib/clipboard";
import { done, failed } from "@/lib/notify";
import type { ResultSource } from "@/lib/result";
import { curlOf, fileParts } from "./file";
import { isOver, type Statement } from "./queries";

/** The whole result as a file, piece by piece, or as a command that fetches it. */
export function Download({ statement: s, source }: { statement: Statement; source: ResultSource }) {
  const [at, setAt] = useState<number | null>(null);
  const stop = useRef<AbortController>(undefined);
  const clip = useCopy();
  useEffect(() => () => stop.current?.abort(), []);
  const save = async (f: "csv" | "json") => {
    const control = new AbortController();
    stop.current = control;
    setAt(0);
    try {
      const parts: BlobPart[] = [];
      for await (const { part, share } of fileParts(source, f, control.signal)) {
        // A blob of its own for each piece: the browser may put it on the disk.
        parts.push(new Blob([part]));
        setAt(share);
      }
      offer(new Blob(parts, { type: f === "csv" ? "text/csv" : "application/json" }), `${s.id}.${f}`);
    } catch (e) {
      if (!control.signal.aborted) failed("The result was not downloaded", e);
    } finally {
      setAt(null);
    }
  };
  if (at !== null)
    return (
      <Button
        size="compact-sm"
        fz="xs"
        variant="default"
        leftSection={<IconPlayerStop size={14} />}
        onClick={() => stop.current?.abort()}
      >
        {Math.round(at * 100)} %: stop
      </Button>
    );
  const copy = (accept: string, ending: string) => {
    void clip.copy(curlOf(s, accept, ending, location.origin));
    done("Copied the curl command.");
  };
  return (
    <Menu>
      <Menu.Target>
        <Button
          size="compact-sm"
          fz="xs"
          variant="default"
          leftSection={<IconDownload size={14} />}
          disabled={!isOver(s)}
        >
          Download
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>The whole result</Menu.Label>
        <Menu.Item onClick={() => void save("csv")}>CSV</Menu.Item>
        <Menu.Item onClick={() => void save("json")}>JSON</Menu.Item>
        <Menu.Label>As a command, with an API key</Menu.Label>
        <Menu.Item onClick={() => copy("application/vnd.apache.arrow.stream", "arrow")}>
          Copy curl for Arrow
        </Menu.Item>
        <Menu.Item onClick={() => copy("text/csv", "csv")}>Copy curl for CSV</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function offer(blob: Blob, name: string) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}
