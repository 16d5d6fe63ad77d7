import React from 'react';
import type { IReading } from '../readings';

/** One quantity. A dash says on hover why there is no number. */
export function Reading(props: { reading: IReading; name: string; className?: string }): React.JSX.Element {
  const { reading, name, className } = props;
  return (
    <span className={`jp-GpuGuard-Reading ${className ?? ''}`} title={reading.title ?? name}>
      <span className="jp-GpuGuard-Unseen">{name}: </span>
      {reading.text}
      {reading.title !== undefined && <span className="jp-GpuGuard-Unseen"> {reading.title}</span>}
    </span>
  );
}
