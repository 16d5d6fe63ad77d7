import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { IPast } from '../view';

/** What was done lately. */
export function Past({ past, trans }: { past: readonly IPast[]; trans: TranslationBundle }): React.JSX.Element | null {
  if (past.length === 0) {
    return null;
  }
  return (
    <section>
      <h3>{trans.__('Lately')}</h3>
      <ul className="jp-GpuGuard-Past">
        {past.map(entry => (
          <li key={entry.id} data-failed={entry.failed}>
            <details>
              <summary>{entry.text}</summary>
              {entry.detail}
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}
