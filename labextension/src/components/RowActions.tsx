import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { nameOf, type Remedy } from '../remedies';
import type { IRow } from '../rows';
import type { IArgument } from '../why';
import { KeepButton } from './KeepButton';

/** What a row can ask for. The object stays the same for the life of the panel. */
export interface IRowDoors {
  readonly open: (path: string) => void;
  readonly keep: (row: IRow, seconds: number) => Promise<void>;
  readonly stopKeeping: (row: IRow) => Promise<void>;
  readonly remedy: (row: IRow, remedy: Remedy) => Promise<void>;
  readonly shutDown: (row: IRow) => Promise<void>;
  readonly fold: (owner: string) => void;
  /** A menu of a row opens or closes. */
  readonly choosing: (open: boolean) => void;
  readonly explain: (owner: string) => Promise<IArgument>;
  readonly showPolicy: () => void;
}

interface IProps {
  readonly row: IRow;
  readonly whyId: string;
  readonly doors: IRowDoors;
  readonly trans: TranslationBundle;
}

/** The buttons of one row. While an act is under way none can be pressed twice. */
export function RowActions({ row, whyId, doors, trans }: IProps): React.JSX.Element {
  const stops = row.kind !== 'kernel';
  const [waiting, setWaiting] = React.useState(false);
  const node = React.useRef<HTMLDivElement>(null);
  const [pressed, setPressed] = React.useState<Element | null>(null);
  const wait = (act: Promise<void>): void => {
    setPressed(document.activeElement);
    setWaiting(true);
    void act.finally(() => {
      setWaiting(false);
    });
  };
  // A button that rests, or goes, loses the focus: a person at the keyboard would have to begin at the top again.
  React.useEffect(() => {
    if (!waiting && pressed !== null) {
      setPressed(null);
      if (document.activeElement === document.body && node.current !== null) {
        const place = node.current.contains(pressed) ? pressed : node.current.closest('li');
        (place as HTMLElement | null)?.focus({ preventScroll: true });
      }
    }
  }, [waiting]);
  return (
    <div className="jp-GpuGuard-Actions" ref={node}>
      <KeepButton
        title={row.title}
        choices={row.keepChoices}
        disabled={waiting}
        onChoosing={doors.choosing}
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
      {row.offers.map(({ remedy, label, hint }) => (
        <button
          key={remedy}
          type="button"
          className="jp-GpuGuard-Button"
          aria-label={nameOf(remedy, row.title, trans)}
          title={hint}
          disabled={waiting}
          onClick={() => {
            wait(doors.remedy(row, remedy));
          }}
        >
          {label}
        </button>
      ))}
      {row.canEnd && (
        <button
          type="button"
          className="jp-GpuGuard-Button"
          aria-label={stops ? trans.__('Stop %1', row.title) : trans.__('Shut down %1', row.title)}
          disabled={waiting || row.ending}
          onClick={() => {
            wait(doors.shutDown(row));
          }}
        >
          {stops ? trans.__('Stop') : trans.__('Shut down')}
        </button>
      )}
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
  );
}
