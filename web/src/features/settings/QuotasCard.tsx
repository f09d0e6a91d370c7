import { Button, Group, NumberInput, Progress, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { QuotaUnit, Role, type SettingsQuery, UpdateQuotaDocument } from "@/gql/gen";
import { formatBytes, formatCount } from "@/lib/format";
import { request } from "@/lib/graphql";
import { done } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { Allowed } from "@/ui/Allowed";

type Quota = SettingsQuery["quotas"][number];

/** The workspace's quotas, their use, and a form to change them. */
export function QuotasCard({ quotas }: { quotas: readonly Quota[] }) {
  return (
    <section className="card" aria-label="Quotas">
      <div className="section-title">
        <h2>Quotas</h2>
      </div>
      {quotas.map((q) => (
        <QuotaRow key={q.id} quota={q} />
      ))}
    </section>
  );
}

function amount(q: Quota, n: string) {
  return q.unit === QuotaUnit.Bytes ? formatBytes(Number(n)) : formatCount(Number(n));
}

function QuotaRow({ quota: q }: { quota: Quota }) {
  const qc = useQueryClient();
  const [limit, setLimit] = useState<number | string>(Number(q.limit));
  const update = useMutation({
    mutationFn: (n: number) => request(UpdateQuotaDocument, { input: { name: q.name, limit: String(n) } }),
    onSuccess: (d) => {
      patchEntity(qc, d.updateQuota.quota);
      done(`${q.name} is ${amount(q, d.updateQuota.quota.limit)} now.`);
    },
  });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (typeof limit === "number") update.mutate(limit);
  };
  const share = Number(q.limit) ? Math.min(100, (Number(q.current) / Number(q.limit)) * 100) : 100;
  return (
    <form className="card-pad" style={{ paddingTop: 0 }} onSubmit={submit}>
      <Group justify="space-between" wrap="nowrap" align="flex-end">
        <div style={{ minWidth: 0, flex: 1 }}>
          <Text size="sm" fw={570} className="mono">
            {q.name}
          </Text>
          <Text size="xs" c="dimmed">
            {q.description}
          </Text>
          <Group gap={8} mt={6} wrap="nowrap">
            <Progress
              value={share}
              size={6}
              style={{ flex: 1 }}
              color={share >= 100 ? "red" : undefined}
              aria-label={`${amount(q, q.current)} of ${amount(q, q.limit)} in use`}
            />
            <Text size="xs" c="dimmed" className="nowrap">
              {amount(q, q.current)} of {amount(q, q.limit)} in use
            </Text>
          </Group>
        </div>
        <Allowed role={Role.Admin}>
          {(disabled) => (
            <Group gap={8} wrap="nowrap" align="flex-start">
              <NumberInput
                size="xs"
                w={130}
                title={`The default is ${amount(q, q.default)}.`}
                aria-label={`Limit of ${q.name}`}
                min={0}
                allowDecimal={false}
                value={limit}
                onChange={setLimit}
                disabled={disabled}
                error={update.error?.message}
              />
              <Button
                type="submit"
                size="xs"
                variant="default"
                disabled={disabled || limit === Number(q.limit) || limit === ""}
                loading={update.isPending}
              >
                Set
              </Button>
            </Group>
          )}
        </Allowed>
      </Group>
    </form>
  );
}
