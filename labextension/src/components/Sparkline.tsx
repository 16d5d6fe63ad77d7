import React from 'react';
import { HEIGHT, type ISpark, MINUTES } from '../sparks';

/** A small line of the last hour. Its words are for those who cannot see it, and for whoever hovers. */
export function Sparkline({ spark }: { spark: ISpark }): React.JSX.Element {
  return (
    <span className="jp-GpuGuard-Spark" title={spark.text}>
      <svg
        role="img"
        aria-label={spark.text}
        viewBox={`0 0 ${MINUTES} ${HEIGHT}`}
        width={MINUTES}
        height={HEIGHT}
        preserveAspectRatio="none"
      >
        <path d={spark.line} />
      </svg>
    </span>
  );
}
