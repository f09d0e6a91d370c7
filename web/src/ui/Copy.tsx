import { ActionIcon, Button, Menu, Tooltip, UnstyledButton } from "@mantine/core";
import { IconApi, IconBraces, IconCheck, IconCode, IconCopy } from "@tabler/icons-react";
import type { TypedDocumentString } from "@/gql/gen";
import { useCopy } from "@/lib/clipboard";
import { operationName } from "@/lib/graphql";
import { done } from "@/lib/notify";

export function CopyButton({ value, label }: { value: string; label: string }) {
  const clip = useCopy();
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={clip.copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      onClick={() => clip.copy(value)}
    >
      {clip.copied ? "Copied" : label}
    </Button>
  );
}

export function CopyIcon({ value, label }: { value: string; label: string }) {
  const clip = useCopy();
  return (
    <Tooltip label={clip.copied ? "Copied" : label}>
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={() => clip.copy(value)}>
        {clip.copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      </ActionIcon>
    </Tooltip>
  );
}

/** An id that copies itself on click. */
export function CopyId({ id, short }: { id: string; short?: boolean }) {
  const clip = useCopy();
  const shown = short ? `${id.slice(0, id.indexOf("_") + 1)}…${id.slice(-6)}` : id;
  return (
    <Tooltip label={clip.copied ? "Copied" : `Copy ${id}`}>
      <UnstyledButton className="copy-id" onClick={() => clip.copy(id)} aria-label={`Copy ${shown}`}>
        {shown}
      </UnstyledButton>
    </Tooltip>
  );
}

const quote = (s: string) => `'${s.replaceAll("'", "'\\''")}'`;

/** The request as a command that works as pasted, once MILLPOND_TOKEN holds an API key. */
export function asCurl<R, V>(doc: TypedDocumentString<R, V>, variables: V, origin: string): string {
  const query = doc.toString().replace(/\s+/g, " ").trim();
  const body = JSON.stringify({ operationName: operationName(query), query, variables });
  return [
    `curl -sS ${origin}/graphql`,
    `  -H "Authorization: Bearer $MILLPOND_TOKEN"`,
    "  -H 'Content-Type: application/json'",
    `  --data ${quote(body)}`,
  ].join(" \\\n");
}

/** This page's request as code. */
export function CopyMenu<R, V>({
  doc,
  variables,
  rest,
}: {
  doc: TypedDocumentString<R, V>;
  variables: V;
  /** Path of the same resource in REST. */
  rest?: string;
}) {
  const clip = useCopy();
  const copy = (what: string, text: string) => {
    clip.copy(text);
    done(`Copied ${what}.`);
  };
  const origin = location.origin;
  return (
    <Menu width={220}>
      <Menu.Target>
        <Tooltip label="Copy as code">
          <ActionIcon variant="default" size={34} aria-label="Copy as code">
            <IconCode size={16} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={<IconCode size={14} />}
          onClick={() => copy("the curl command", asCurl(doc, variables, origin))}
        >
          Copy as curl
        </Menu.Item>
        <Menu.Item
          leftSection={<IconBraces size={14} />}
          onClick={() =>
            copy(
              "the query",
              `${doc.toString().trim()}\n\n# variables\n${JSON.stringify(variables, null, 2)}`,
            )
          }
        >
          Copy GraphQL
        </Menu.Item>
        {rest && (
          <Menu.Item
            leftSection={<IconApi size={14} />}
            onClick={() =>
              copy("the REST call", `curl -sS ${origin}${rest} -H "Authorization: Bearer $MILLPOND_TOKEN"`)
            }
          >
            Copy REST call
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
