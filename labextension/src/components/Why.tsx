import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { IArgument, IWhy } from '../why';

interface IProps {
  readonly id: string;
  readonly why: IWhy;
  readonly onExplain: () => Promise<IArgument>;
  readonly onPolicy: () => void;
  readonly trans: TranslationBundle;
}

/** The argument behind a row: reasons, what spares it, what is not known, and the processes. */
export function Why({ id, why, onExplain, onPolicy, trans }: IProps): React.JSX.Element {
  const [argument, setArgument] = React.useState<IArgument | null>(null);
  const explain = (): void => {
    onExplain().then(setArgument, (error: unknown) => {
      setArgument({ lines: [error instanceof Error ? error.message : String(error)], passedOver: [] });
    });
  };
  return (
    <div className="jp-GpuGuard-Why" id={id}>
      <Lines lines={why.reasons} />
      <Lines title={trans.__('What comes')} lines={why.steps} />
      <Lines title={trans.__('Spared because')} lines={why.protections} />
      <Lines title={trans.__('Not known')} lines={why.unknowns} />
      <Lines title={trans.__('What the figures rest on')} lines={why.figures} />
      <Lines title={trans.__('Left behind by an earlier run')} lines={why.leftovers} />
      <Lines title={trans.__('Processes')} lines={why.processes} />
      {argument === null ? (
        <button type="button" className="jp-GpuGuard-Link" onClick={explain}>
          {trans.__('The whole argument')}
        </button>
      ) : (
        <>
          <Lines title={trans.__('Rules that were asked before')} lines={argument.passedOver} />
          <Lines title={trans.__('The whole argument')} lines={argument.lines} />
        </>
      )}{' '}
      <button type="button" className="jp-GpuGuard-Link" onClick={onPolicy}>
        {trans.__('The policy')}
      </button>
    </div>
  );
}

function Lines({ title, lines }: { title?: string; lines: readonly string[] }): React.JSX.Element | null {
  if (lines.length === 0) {
    return null;
  }
  return (
    <>
      {title !== undefined && <h4>{title}</h4>}
      <ul>
        {lines.map((line, index) => (
          <li key={index}>{line}</li>
        ))}
      </ul>
    </>
  );
}
