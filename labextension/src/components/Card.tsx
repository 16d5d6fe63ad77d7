import React from 'react';

interface IProps {
  readonly tone: 'plain' | 'warning';
  readonly title?: string;
  readonly children: React.ReactNode;
}

/** A calm box for one thing that should be known. */
export function Card({ tone, title, children }: IProps): React.JSX.Element {
  return (
    <div className="jp-GpuGuard-Card" data-tone={tone}>
      {title !== undefined && <strong>{title}</strong>}
      {children}
    </div>
  );
}
