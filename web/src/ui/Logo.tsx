/** The mark: a water wheel that turns over the ripples of its pond. */
export function LogoMark({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="logo-mark">
      <g fill="none" stroke="currentColor" strokeWidth="2.5" strokeLinecap="round">
        <path d="M9.9 18.3a7.5 7.5 0 1 1 12.2 0" />
        <path d="M8.5 14H4.3M10.7 8.7 7.7 5.7M16 6.5V2.3M21.3 8.7l3-3M23.5 14h4.2" />
        <circle cx="16" cy="14" r="2.3" fill="currentColor" stroke="none" />
      </g>
      <g fill="none" stroke="var(--logo-water)" strokeWidth="2.5" strokeLinecap="round">
        <path d="M3 23.2c2.2-1.9 4.3-1.9 6.5 0s4.3 1.9 6.5 0 4.3-1.9 6.5 0 4.3 1.9 6.5 0" />
        <path d="M8 28.6c1.6-1.3 3.1-1.3 4.7 0s3.1 1.3 4.7 0 3.1-1.3 4.7 0" opacity=".6" />
      </g>
    </svg>
  );
}

export function Logo({ size = 24 }: { size?: number }) {
  return (
    <span className="logo">
      <LogoMark size={size} />
      <span>Millpond</span>
    </span>
  );
}
