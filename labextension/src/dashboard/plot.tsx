import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { duration, NOT_KNOWN } from '../format';

/** One value over time; null: not known then, and the line has a gap. */
export interface IValue {
  readonly at: number;
  readonly value: number | null;
}

interface IProps {
  /** What is plotted: `GPU 0, memory`. */
  readonly name: string;
  /** The same, where one sees what it belongs to: `GPU memory`. */
  readonly caption: string;
  readonly values: readonly IValue[];
  /** The height of the plot. Null: as high as the highest value. */
  readonly top: number | null;
  readonly from: number;
  readonly to: number;
  readonly format: (value: number) => string;
  readonly trans: TranslationBundle;
}

const WIDTH = 300;
const HEIGHT = 60;
/** Longer than this without a value is a gap. */
const GAP_MS = 150_000;

/** The strokes of a line: each a run of values without a gap, in the units of the plot. */
export function strokes(values: readonly IValue[], from: number, to: number, top: number): string[] {
  const found: string[][] = [];
  let last: number | null = null;
  for (const { at, value } of values) {
    if (value === null) {
      last = null;
      continue;
    }
    if (last === null || at - last > GAP_MS) {
      found.push([]);
    }
    const x = ((at - from) / Math.max(1, to - from)) * WIDTH;
    const y = HEIGHT - (Math.min(value, top) / Math.max(top, Number.EPSILON)) * HEIGHT;
    found[found.length - 1].push(`${x.toFixed(1)},${y.toFixed(1)}`);
    last = at;
  }
  // A single value is a dot: a line with two ends at one place, and a round cap.
  return found.map(run => (run.length === 1 ? [run[0], run[0]] : run).join(' '));
}

/** The newest and the highest value in words, for those who do not see the line. */
export function plotText({ name, values, from, to, format, trans }: Omit<IProps, 'top' | 'caption'>): string {
  const known = values.map(({ value }) => value).filter(value => value !== null);
  const newest = values.length === 0 ? null : values[values.length - 1].value;
  if (known.length === 0) {
    return trans.__('%1: not known', name);
  }
  const first = values.find(({ value }) => value !== null)?.at ?? from;
  return trans.__(
    '%1: now %2, highest %3 in the last %4',
    name,
    newest === null ? NOT_KNOWN : format(newest),
    format(Math.max(...known)),
    duration((to - first) / 1000, trans)
  );
}

/** A small line over the last hour. What was not known is a gap, never a nought. */
export const Plot = React.memo(function Plot(props: IProps): React.JSX.Element {
  const { values, from, to, format } = props;
  const known = values.map(({ value }) => value).filter(value => value !== null);
  const highest = known.length === 0 ? 0 : Math.max(...known);
  const top = props.top ?? highest;
  const newest = values.length === 0 ? null : values[values.length - 1].value;
  return (
    <figure className="jp-GpuGuard-Plot">
      <figcaption>
        <span>{props.caption}</span>
        <strong>{newest === null ? NOT_KNOWN : format(newest)}</strong>
      </figcaption>
      <div className="jp-GpuGuard-PlotArea">
        <svg role="img" aria-label={plotText(props)} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
          <title>{plotText(props)}</title>
          {[0, 0.5, 1].map(share => (
            <line key={share} x1={0} x2={WIDTH} y1={share * HEIGHT} y2={share * HEIGHT} />
          ))}
          {strokes(values, from, to, top).map(points => (
            <polyline key={points} points={points} />
          ))}
        </svg>
        {top > 0 && (
          <span className="jp-GpuGuard-PlotTop" aria-hidden="true">
            {format(top)}
          </span>
        )}
      </div>
    </figure>
  );
});
