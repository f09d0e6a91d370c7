import { ActionIcon, Button, Checkbox, FileButton, Text, TextInput } from "@mantine/core";
import { IconFilePlus, IconX } from "@tabler/icons-react";
import { formatBytes } from "@/lib/format";
import { failed } from "@/lib/notify";
import type { Errors } from "./fields";
import type { FileModel } from "./model";
import { fileSize } from "./validate";

const toBase64 = (f: File) =>
  new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(f);
  });

const read = async (f: File): Promise<FileModel> => ({
  path: f.name,
  content: await toBase64(f),
  executable: /\.(sh|py|pl|rb)$/.test(f.name),
});

/** The files of a job. A file with the same path is replaced. */
export function FilesForm({
  files,
  onChange,
  errors,
}: {
  files: readonly FileModel[];
  onChange: (f: FileModel[]) => void;
  errors: Errors;
}) {
  const set = (i: number, f: Partial<FileModel>) =>
    onChange(files.map((x, j) => (i === j ? { ...x, ...f } : x)));
  const add = async (chosen: File[]) => {
    try {
      const fresh = await Promise.all(chosen.map(read));
      onChange([...files.filter((f) => !fresh.some((x) => x.path === f.path)), ...fresh]);
    } catch (e) {
      failed("The file could not be read", e);
    }
  };
  return (
    <section className="card card-pad stack" style={{ gap: 8 }} aria-label="Files">
      <div>
        <Text size="sm" fw={600}>
          Files
        </Text>
        <Text size="xs" c="dimmed">
          Copied into the working directory of each task. At most 4 MiB together.
        </Text>
      </div>
      {files.map((f, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
        <div key={i} className="file-row code-input">
          <TextInput
            size="xs"
            aria-label={`Path of file ${i + 1}`}
            value={f.path}
            onChange={(e) => set(i, { path: e.currentTarget.value })}
            error={errors.get(`files.${i}.path`)}
          />
          <Text size="xs" c="dimmed" ta="right">
            {formatBytes(fileSize(f))}
          </Text>
          <Checkbox
            size="xs"
            label="executable"
            checked={f.executable}
            onChange={(e) => set(i, { executable: e.currentTarget.checked })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove ${f.path || "this file"}`}
            onClick={() => onChange(files.filter((_, j) => j !== i))}
          >
            <IconX size={15} />
          </ActionIcon>
        </div>
      ))}
      {errors.get("files") && (
        <Text size="xs" c="var(--mantine-color-error)">
          {errors.get("files")}
        </Text>
      )}
      <FileButton multiple onChange={(chosen) => void add(chosen)}>
        {(props) => (
          <Button
            {...props}
            size="xs"
            variant="default"
            leftSection={<IconFilePlus size={14} />}
            style={{ alignSelf: "flex-start" }}
          >
            Add files
          </Button>
        )}
      </FileButton>
    </section>
  );
}
