import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { Fault } from '../api';
import { Card } from './Card';

interface IProps {
  readonly fault: Fault | null;
  readonly onRetry: () => void;
  readonly trans: TranslationBundle;
}

const INSTALL = 'pip install jupyter-gpu-guard';
const ENABLE = 'jupyter server extension enable jupyter_gpu_guard';

/** Stands where there is no report at all: why, and what would help. */
export function Absence({ fault, onRetry, trans }: IProps): React.JSX.Element {
  if (fault === null) {
    return <Card tone="plain">{trans.__('Looking…')}</Card>;
  }
  return (
    <Card tone="warning" title={headline(fault, trans)}>
      {fault.kind === 'missing' && (
        <>
          <p>{trans.__('Install and enable it where the Jupyter server runs, then restart that server:')}</p>
          <pre>
            {INSTALL}
            {'\n'}
            {ENABLE}
          </pre>
        </>
      )}
      {fault.kind === 'forbidden' && (
        <p>{trans.__('Ask whoever runs this server for permission to read the resource “gpu_guard”.')}</p>
      )}
      {fault.kind === 'refused' && <p>{fault.message}</p>}
      <AskedFor fault={fault} trans={trans} />
      <button type="button" className="jp-GpuGuard-Button" onClick={onRetry}>
        {trans.__('Try again')}
      </button>
    </Card>
  );
}

/** What was asked for in vain: whoever looks after the server or a proxy can look for it. */
export function AskedFor({
  fault,
  trans
}: Pick<IProps, 'trans'> & { readonly fault: Fault }): React.JSX.Element | null {
  return fault.path === null ? null : <p className="jp-GpuGuard-Path">{trans.__('Asked for: %1', fault.path)}</p>;
}

/** What is wrong, in one sentence. */
export function headline(fault: Fault, trans: TranslationBundle): string {
  switch (fault.kind) {
    case 'missing':
      return trans.__('The server part of GPU Guard is not running.');
    case 'forbidden':
      return trans.__('You may not see the GPUs of this server.');
    case 'unreachable':
      return trans.__('The server does not answer.');
    case 'refused':
      return trans.__('The server could not tell.');
  }
}
