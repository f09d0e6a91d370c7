import { Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { useTab } from "@/lib/favicon";
import { Logo } from "@/ui/Logo";

/** The frame of the pages before sign-in. */
export function Gate({ title, lead, children }: { title: string; lead: ReactNode; children: ReactNode }) {
  useTab(title);
  return (
    <div className="gate">
      <main className="gate-form">
        <Stack gap="xl">
          <Logo size={30} />
          <div>
            <Title order={1} size="h2">
              {title}
            </Title>
            <Text size="sm" c="dimmed" mt={6}>
              {lead}
            </Text>
          </div>
          {children}
        </Stack>
      </main>
      <aside className="gate-side" aria-label="About Millpond">
        <Waves />
        <h2>Work flows in. The wheel turns. You see every drop.</h2>
        <p>Jobs as graphs, agents in your own cloud, and logs that arrive line by line, in one binary.</p>
      </aside>
    </div>
  );
}

function Waves() {
  const line = (y: number) => `M-40 ${y}${Array.from({ length: 12 }, () => "q40 -26 80 0t80 0").join("")}`;
  return (
    <svg className="gate-waves" viewBox="0 0 800 900" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      <g
        transform="translate(560 235)"
        fill="none"
        stroke="#2f8fb3"
        strokeWidth="10"
        strokeLinecap="round"
        opacity=".5"
      >
        <circle r="150" />
        <circle r="34" />
        {Array.from({ length: 10 }, (_, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: spokes never change
          <path key={i} d="M0 -46V-186" transform={`rotate(${i * 36})`} />
        ))}
      </g>
      <g fill="none" stroke="#3fb3dc" strokeWidth="6" strokeLinecap="round">
        {[400, 450, 500, 550, 600].map((y, i) => (
          <path key={y} d={line(y)} transform={`translate(${-i * 27} 0)`} opacity={0.5 - i * 0.09} />
        ))}
      </g>
    </svg>
  );
}
