import type { TranslationBundle } from '@jupyterlab/translation';
import { type ReadonlyJSONValue, JSONExt } from '@lumino/coreutils';
import React from 'react';
import type { IRow } from '../rows';
import { KeepButton } from './KeepButton';
import { Reading } from './Reading';
import { Why } from './Why';

/** What a row can ask for. The object stays the same for the life of the panel. */
export interface IRowDoors {
  readonly open: (path: string) => void;
  readonly keep: (row: IRow, seconds: number) => Promise<void>;
  readonly stopKeeping: (row: IRow) => Promise<void>;
  readonly shutDown: (row: IRow) => Promise<void>;
  readonly fold: (owner: string) => void;
  readonly explain: (owner: string) => Promise<readonly string[]>;
}

interface IProps {
  readonly row: IRow;
  /** Changes whenever the panel is asked to show this very row; 0: never. */
  readonly revealed: number;
  readonly doors: IRowDoors;
  readonly trans: TranslationBundle;
}

/** One notebook, terminal or TensorBoard that holds GPU memory. */
export const HolderRow = React.memo(function HolderRow({ row, revealed, doors, trans }: IProps): React.JSX.Element {
  const [waiting, setWaiting] = React.useState(false);
  const node = React.useRef<HTMLLIElement>(null);
  const whyId = `jp-GpuGuard-why-${row.owner}`;

  React.useEffect(() => {
    if (revealed > 0) {
      node.current?.scrollIntoView({ block: 'nearest' });
      node.current?.focus();
    }
  }, [revealed]);

  const wait = (act: Promise<void>): void => {
    setWaiting(true);
    void act.finally(() => {
      setWaiting(false);
    });
  };

  return (
    <li
      ref={node}
      tabIndex={-1}
      className="jp-GpuGuard-Row"
      data-testid="gpu-guard-row"
      data-owner={row.owner}
      data-tone={row.tone}
      aria-label={row.path ?? row.title}
    >
      <div className="jp-GpuGuard-Split">
        <RowTitle row={row} onOpen={doors.open} trans={trans} />
        <Reading reading={row.memory} name={trans.__('GPU memory')} className="jp-GpuGuard-Memory" />
      </div>
      <Reading
        reading={row.compute}
        name={trans.__('Compute, mean of the last minute')}
        className="jp-GpuGuard-Compute"
      />
      {row.folder !== null && <div className="jp-GpuGuard-Folder">{row.folder}</div>}
      {row.places.map(place => (
        <div key={place.device} className="jp-GpuGuard-Place" title={place.title}>
          {place.text}
        </div>
      ))}
      <div className="jp-GpuGuard-State">{row.state}</div>
      <div className="jp-GpuGuard-Actions">
        <KeepButton
          title={row.title}
          choices={row.keepChoices}
          disabled={waiting}
          onKeep={seconds => {
            wait(doors.keep(row, seconds));
          }}
          trans={trans}
        />
        {row.kept && (
          <button
            type="button"
            className="jp-GpuGuard-Button"
            aria-label={trans.__('Stop keeping %1', row.title)}
            disabled={waiting}
            onClick={() => {
              wait(doors.stopKeeping(row));
            }}
          >
            {trans.__('Stop keeping')}
          </button>
        )}
        <button
          type="button"
          className="jp-GpuGuard-Button"
          aria-label={trans.__('Shut down %1', row.title)}
          disabled={waiting}
          onClick={() => {
            wait(doors.shutDown(row));
          }}
        >
          {trans.__('Shut down')}
        </button>
        <button
          type="button"
          className="jp-GpuGuard-Link"
          aria-label={trans.__('Why? %1', row.title)}
          aria-expanded={row.why !== null}
          aria-controls={whyId}
          onClick={() => {
            doors.fold(row.owner);
          }}
        >
          {trans.__('Why?')}
        </button>
      </div>
      {row.why !== null && <Why id={whyId} why={row.why} onExplain={() => doors.explain(row.owner)} trans={trans} />}
    </li>
  );
}, sameRow);

function RowTitle(props: { row: IRow; onOpen: (path: string) => void; trans: TranslationBundle }): React.JSX.Element {
  const { row, onOpen, trans } = props;
  const { path } = row;
  if (path === null) {
    return (
      <span className="jp-GpuGuard-Name" title={row.kernelspec ?? undefined}>
        {row.title}
      </span>
    );
  }
  return (
    <button
      type="button"
      className="jp-GpuGuard-Name jp-GpuGuard-Link"
      title={trans.__('Open %1', path)}
      onClick={() => {
        onOpen(path);
      }}
    >
      {row.title}
    </button>
  );
}

function sameRow(before: IProps, after: IProps): boolean {
  return (
    before.revealed === after.revealed &&
    before.doors === after.doors &&
    JSONExt.deepEqual(before.row as unknown as ReadonlyJSONValue, after.row as unknown as ReadonlyJSONValue)
  );
}
