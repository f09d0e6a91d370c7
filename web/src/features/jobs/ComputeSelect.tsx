import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { JobComputeDocument } from "@/gql/gen";
import { gql } from "@/lib/graphql";
import { perHour } from "@/lib/machine";
import { MachineBadge } from "@/ui/Machine";

/** The select's value for no compute instance. */
const none = "";

/** Chooses a compute instance for the work, or none. */
export function ComputeSelect({
  label,
  description,
  without,
  value,
  onChange,
  error,
}: {
  label: string;
  description?: string;
  /** The label for no compute instance. */
  without: string;
  /** Id or name; null for none. */
  value: string | null;
  onChange: (v: string | null) => void;
  error: string | undefined;
}) {
  const q = useQuery(gql(JobComputeDocument, {}));
  const all = q.data?.computeInstances.edges.map((e) => e.node) ?? [];
  const chosen = all.find((c) => c.id === value || c.name === value);
  const gone = q.isSuccess && value !== null && !chosen;
  return (
    <Select
      label={label}
      description={
        chosen
          ? `${chosen.flavor}, ${perHour(chosen)} while it runs. It starts when a task waits for it.`
          : description
      }
      data={[
        { value: none, label: without },
        ...(value !== null && !chosen ? [{ value, label: q.isSuccess ? `${value} (deleted)` : value }] : []),
        ...all.map((c) => ({ value: c.id, label: c.name })),
      ]}
      value={chosen?.id ?? value ?? none}
      onChange={(v) => onChange(v || null)}
      allowDeselect={false}
      searchable={all.length > 12}
      limit={200}
      renderOption={({ option }) => {
        const c = all.find((x) => x.id === option.value);
        return (
          <div className="compute-option">
            <span>{option.label}</span>
            {c && <small>{`${c.flavor}, ${perHour(c)}`}</small>}
            {c && <MachineBadge state={c.state} />}
          </div>
        );
      }}
      error={error ?? (gone ? "This compute instance was deleted: choose another." : undefined)}
    />
  );
}
