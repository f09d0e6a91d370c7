import { Button, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { type PlacesQuery, Role, UpdateProviderDocument, UpdateStorageDocument } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { RequestError, request } from "@/lib/graphql";
import { done } from "@/lib/notify";
import { useRole } from "@/lib/session";
import { CopyId } from "@/ui/Copy";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { When } from "@/ui/Time";
import { placesQuery } from "./queries";

/**
 * The provider of machines and the storage of objects: visible to all, changed by administrators.
 */
export function PlacesCards() {
  const q = useQuery(placesQuery);
  if (q.error) return <ErrorPanel error={q.error} retry={() => q.refetch()} />;
  if (!q.data) return <PanelSkeleton height={320} />;
  return (
    <>
      <ProviderCard key={`provider-${q.data.provider.updatedAt}`} provider={q.data.provider} />
      <StorageCard key={`storage-${q.data.storage.updatedAt}`} storage={q.data.storage} />
    </>
  );
}

/** Empty text means omitted. */
const given = (s: string) => s.trim() || null;

function ProviderCard({ provider: p }: { provider: PlacesQuery["provider"] }) {
  const admin = includes(useRole(), Role.Admin);
  const qc = useQueryClient();
  const form = useForm({
    initialValues: {
      kind: p.kind,
      region: p.region,
      role: p.role ?? "",
      externalId: p.externalId ?? "",
    },
  });
  const save = useMutation({
    mutationFn: (v: ReturnType<typeof form.getValues>) =>
      request(UpdateProviderDocument, {
        input: {
          kind: v.kind,
          region: given(v.region),
          role: given(v.role),
          externalId: given(v.externalId),
        },
      }),
    onSuccess: ({ updateProvider: { provider } }) => {
      qc.setQueryData<PlacesQuery>(placesQuery.queryKey, (old) => old && { ...old, provider });
      done("The provider was tested and saved.");
    },
  });
  return (
    <Card
      title="Provider"
      about="The source of compute instances and warehouses. Currently only local exists: processes on the server's own machine."
    >
      {admin ? (
        <form onSubmit={form.onSubmit((v) => save.mutate(v))} noValidate>
          <Stack gap="sm">
            <Refused error={save.error} known={form.getValues()} />
            <SimpleGrid cols={2} spacing="sm">
              <Select
                label="Kind"
                data={["local"]}
                allowDeselect={false}
                {...form.getInputProps("kind")}
                error={errorAt(save.error, "kind")}
              />
              <TextInput
                label="Region"
                spellCheck={false}
                {...form.getInputProps("region")}
                error={errorAt(save.error, "region")}
              />
            </SimpleGrid>
            <Trust
              role={form.getInputProps("role")}
              externalId={form.getInputProps("externalId")}
              error={save.error}
              none="none with local"
            />
            <SaveAndTest pending={save.isPending} />
          </Stack>
        </form>
      ) : (
        <dl className="facts">
          <dt>Kind</dt>
          <dd>{p.kind}</dd>
          <dt>Region</dt>
          <dd>{p.region}</dd>
          <TrustFacts role={p.role} externalId={p.externalId} />
        </dl>
      )}
      <Since at={p.updatedAt} otherwise="The default: no provider is registered." />
    </Card>
  );
}

function StorageCard({ storage: s }: { storage: PlacesQuery["storage"] }) {
  const admin = includes(useRole(), Role.Admin);
  const qc = useQueryClient();
  const form = useForm({
    initialValues: { url: s.url, role: s.role ?? "", externalId: s.externalId ?? "" },
  });
  const save = useMutation({
    mutationFn: (v: ReturnType<typeof form.getValues>) =>
      request(UpdateStorageDocument, {
        input: { url: v.url.trim(), role: given(v.role), externalId: given(v.externalId) },
      }),
    onSuccess: ({ updateStorage: { storage } }) => {
      qc.setQueryData<PlacesQuery>(placesQuery.queryKey, (old) => old && { ...old, storage });
      done("The storage was tested by a write and a read, and saved.");
    },
  });
  return (
    <Card
      title="Storage"
      about="The storage of the workspace's objects. Currently only file: exists: the server's own files."
    >
      {admin ? (
        <form onSubmit={form.onSubmit((v) => save.mutate(v))} noValidate>
          <Stack gap="sm">
            <Refused error={save.error} known={form.getValues()} />
            <TextInput
              className="code-input"
              label="URL"
              spellCheck={false}
              {...form.getInputProps("url")}
              error={errorAt(save.error, "url")}
            />
            <Trust
              role={form.getInputProps("role")}
              externalId={form.getInputProps("externalId")}
              error={save.error}
              none="none with files"
            />
            <SaveAndTest pending={save.isPending} />
          </Stack>
        </form>
      ) : (
        <dl className="facts">
          <dt>URL</dt>
          <dd>
            <CopyId id={s.url} />
          </dd>
          <TrustFacts role={s.role} externalId={s.externalId} />
        </dl>
      )}
      <Since at={s.updatedAt} otherwise="The server's own: no storage is registered." />
    </Card>
  );
}

function Card({ title, about, children }: { title: string; about: string; children: ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <div className="section-title">
        <h2>{title}</h2>
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        <Text size="sm" c="dimmed" mb="sm">
          {about}
        </Text>
        {children}
      </div>
    </section>
  );
}

type Props = ReturnType<ReturnType<typeof useForm>["getInputProps"]>;

/** A role to assume in the customer's own account, and the id that goes with it. */
function Trust({
  role,
  externalId,
  error,
  none,
}: {
  role: Props;
  externalId: Props;
  error: Error | null;
  none: string;
}) {
  return (
    <SimpleGrid cols={2} spacing="sm">
      <TextInput
        label="Role to assume"
        placeholder={none}
        spellCheck={false}
        {...role}
        error={errorAt(error, "role")}
      />
      <TextInput
        label="External id"
        placeholder={none}
        spellCheck={false}
        {...externalId}
        error={errorAt(error, "externalId")}
      />
    </SimpleGrid>
  );
}

function TrustFacts({ role, externalId }: { role: string | null; externalId: string | null }) {
  return (
    <>
      <dt>Role to assume</dt>
      <dd>{role ?? <span className="dim">none</span>}</dd>
      <dt>External id</dt>
      <dd>{externalId ?? <span className="dim">none</span>}</dd>
    </>
  );
}

const camel = (s: string) => s.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());

const fieldOf = (e: Error | null) => (e instanceof RequestError && e.field ? camel(e.field) : undefined);

const errorAt = (e: Error | null, field: string) => (fieldOf(e) === field ? e?.message : undefined);

/** An error that names no field of the form. */
function Refused({ error, known }: { error: Error | null; known: object }) {
  const field = fieldOf(error);
  return error && !(field && field in known) ? <ErrorPanel error={error} /> : null;
}

const SaveAndTest = ({ pending }: { pending: boolean }) => (
  <Button type="submit" variant="default" loading={pending} style={{ alignSelf: "flex-start" }}>
    Save and test
  </Button>
);

function Since({ at, otherwise }: { at: string | null; otherwise: string }) {
  return (
    <Text size="xs" c="dimmed" mt="sm">
      {at ? (
        <>
          Tried and saved <When at={at} />.
        </>
      ) : (
        otherwise
      )}
    </Text>
  );
}
