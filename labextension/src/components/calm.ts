import React from 'react';
import type { IRow } from '../rows';

/** Out of sight, a row is at most about so old. */
const STALE_MS = 60_000;

/** Whether `node` is in the part of the panel that can be seen. Where a browser cannot tell, it is. */
export function useNear(node: React.RefObject<Element>): boolean {
  const [near, setNear] = React.useState(true);
  React.useEffect(() => {
    if (node.current === null) {
      return;
    }
    const observer = new IntersectionObserver(entries => {
      setNear(entries[entries.length - 1].isIntersecting);
    });
    observer.observe(node.current);
    return () => {
      observer.disconnect();
    };
  }, []);
  return near;
}

/** The newest `row` while it is near, or unfolded; else the one that was drawn last, until that is old. */
export function useCalm(row: IRow, near: boolean): IRow {
  const drawn = React.useRef({ row, until: 0 });
  const now = Date.now();
  if (near || row.why !== null || drawn.current.row.why !== null || now > drawn.current.until) {
    // Not all at the same moment.
    drawn.current = { row, until: now + STALE_MS * (1 + Math.random()) };
  }
  return drawn.current.row;
}
