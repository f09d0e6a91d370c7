/** The mark: a water wheel that turns over the ripples of its pond. */
export function LogoMark({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="logo-mark">
      <g fill="none" stroke="currentColor" strokeWidth="2.1" strokeLinecap="round">
        <path d="M6.35 19.6a10.4 10.4 0 1 1 19.3 0" />
        <circle cx="16" cy="15.2" r="2.2" fill="currentColor" stroke="none" />
        <path d="M16 10.6V3.1M12.1 12.9 5.6 9.2M19.9 12.9l6.5-3.7M11.5 15.9l-5.6 1.2M20.5 15.9l5.6 1.2" />
      </g>
      <g fill="none" stroke="var(--logo-water, #1b9ac4)" strokeWidth="2.3" strokeLinecap="round">
        <path d="M3 23.4c2.2-1.8 4.3-1.8 6.5 0s4.3 1.8 6.5 0 4.3-1.8 6.5 0 4.3 1.8 6.5 0" />
        <path d="M8 28.2c1.6-1.2 3.1-1.2 4.7 0s3.1 1.2 4.7 0 3.1-1.2 4.7 0" opacity=".65" />
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
