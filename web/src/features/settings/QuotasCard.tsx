import { Button, Group, NumberInput, Progress, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Role, type SettingsQuery, UpdateQuotaDocument } from "@/gql/gen";
import { formatCount } from "@/lib/format";
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

function QuotaRow({ quota: q }: { quota: Quota }) {
  const qc = useQueryClient();
  const [limit, setLimit] = useState<number | string>(q.limit);
  const update = useMutation({
    mutationFn: (n: number) => request(UpdateQuotaDocument, { input: { name: q.name, limit: n } }),
    onSuccess: (d) => {
      patchEntity(qc, d.updateQuota.quota);
      done(`${q.name} is ${formatCount(d.updateQuota.quota.limit)} now.`);
    },
  });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (typeof limit === "number") update.mutate(limit);
  };
  const share = q.limit ? Math.min(100, (q.current / q.limit) * 100) : 100;
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
              aria-label={`${q.current} of ${q.limit} in use`}
            />
            <Text size="xs" c="dimmed" className="nowrap">
              {formatCount(q.current)} of {formatCount(q.limit)} in use
            </Text>
          </Group>
        </div>
        <Allowed role={Role.Admin}>
          {(disabled) => (
            <Group gap={8} wrap="nowrap" align="flex-start">
              <NumberInput
                size="xs"
                w={90}
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
                disabled={disabled || limit === q.limit || limit === ""}
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
