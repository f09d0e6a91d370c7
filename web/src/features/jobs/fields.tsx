import { NumberInput } from "@mantine/core";

/** The messages of a form by the paths of its fields. */
export type Errors = ReadonlyMap<string, string>;

/** A number input's value; 0 while it is empty. */
export const number = (v: string | number) => (typeof v === "number" ? v : Number.parseInt(v, 10) || 0);

interface NumberProps {
  value: number;
  onChange: (n: number) => void;
  error: string | undefined;
}

export const Retries = ({ value, onChange, error }: NumberProps) => (
  <NumberInput
    label="Retries"
    description="Attempts after the first one, with growing pauses."
    min={0}
    max={100}
    allowDecimal={false}
    value={value}
    onChange={(v) => onChange(number(v))}
    error={error}
  />
);

export const Timeout = ({ value, onChange, error }: NumberProps) => (
  <NumberInput
    label="Time-out"
    description="Of one try. 0 means none."
    min={0}
    allowDecimal={false}
    suffix=" s"
    value={value}
    onChange={(v) => onChange(number(v))}
    error={error}
  />
);
