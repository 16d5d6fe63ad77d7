import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { IPast } from '../view';

interface IProps {
  readonly past: readonly IPast[];
  /** The entry that a person asked to see, if it is one of them. */
  readonly revealed: { readonly owner: string; readonly turn: number } | null;
  readonly trans: TranslationBundle;
}

/** What was done lately. */
export function Past({ past, revealed, trans }: IProps): React.JSX.Element | null {
  if (past.length === 0) {
    return null;
  }
  return (
    <section>
      <h3>{trans.__('Lately')}</h3>
      <ul className="jp-GpuGuard-Past">
        {past.map(entry => (
          <Entry key={entry.id} entry={entry} revealed={revealed?.owner === entry.id ? revealed.turn : 0} />
        ))}
      </ul>
    </section>
  );
}

function Entry({ entry, revealed }: { entry: IPast; revealed: number }): React.JSX.Element {
  const node = React.useRef<HTMLDetailsElement>(null);
  React.useEffect(() => {
    if (revealed > 0 && node.current !== null) {
      node.current.open = true;
      node.current.scrollIntoView({ block: 'nearest' });
      node.current.querySelector('summary')?.focus();
    }
  }, [revealed]);
  return (
    <li data-failed={entry.failed}>
      <details ref={node}>
        <summary>{entry.text}</summary>
        {entry.detail}
      </details>
    </li>
  );
}
