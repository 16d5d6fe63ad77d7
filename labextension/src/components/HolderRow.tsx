import type { TranslationBundle } from '@jupyterlab/translation';
import { type ReadonlyJSONValue, JSONExt } from '@lumino/coreutils';
import React from 'react';
import type { IRow } from '../rows';
import { useCalm, useNear } from './calm';
import { Reading } from './Reading';
import { type IRowDoors, RowActions } from './RowActions';
import { Sparkline } from './Sparkline';
import { Why } from './Why';

interface IProps {
  readonly row: IRow;
  /** Changes whenever the panel is asked to show this very row; 0: never. */
  readonly revealed: number;
  readonly doors: IRowDoors;
  readonly trans: TranslationBundle;
}

/** One notebook, terminal or TensorBoard. Out of sight it is drawn anew only once in a while: there may be hundreds. */
export function HolderRow(props: IProps): React.JSX.Element {
  const node = React.useRef<HTMLLIElement>(null);
  const row = useCalm(props.row, useNear(node));
  return <Drawn {...props} row={row} node={node} />;
}

interface IDrawnProps extends IProps {
  readonly node: React.RefObject<HTMLLIElement>;
}

const Drawn = React.memo(function Drawn({ row, revealed, doors, trans, node }: IDrawnProps): React.JSX.Element {
  const whyId = `jp-GpuGuard-why-${row.owner}`;

  React.useEffect(() => {
    if (revealed > 0) {
      node.current?.scrollIntoView({ block: 'nearest' });
      node.current?.focus();
    }
  }, [revealed]);

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
        {row.memory !== null && (
          <Reading
            reading={row.memory}
            name={trans.__('GPU memory, reserved by its processes')}
            className="jp-GpuGuard-Memory"
          />
        )}
      </div>
      {row.compute !== null && (
        <span className="jp-GpuGuard-Compute">
          {row.spark !== null && <Sparkline spark={row.spark} />}
          <Reading reading={row.compute} name={trans.__('Compute, mean of the last minute')} />
        </span>
      )}
      {row.folder !== null && (
        <div className="jp-GpuGuard-Folder" title={row.folder}>
          {row.folder.split('/').map((part, index) => (
            <React.Fragment key={index}>
              {index > 0 && (
                <>
                  /<wbr />
                </>
              )}
              {part}
            </React.Fragment>
          ))}
        </div>
      )}
      {row.places.map(place => (
        <div key={place.device} className="jp-GpuGuard-Place" title={place.title ?? place.shareText}>
          {place.text}
        </div>
      ))}
      {row.places.map(
        place =>
          place.share !== null && (
            <div key={place.device} className="jp-GpuGuard-Share" title={place.shareText} aria-hidden="true">
              <span style={{ width: `${(place.share * 100).toFixed(1)}%` }} />
            </div>
          )
      )}
      {row.facts.map(fact => (
        <div key={fact} className="jp-GpuGuard-Fact">
          {fact}
        </div>
      ))}
      {row.state !== '' && <div className="jp-GpuGuard-State">{row.state}</div>}
      {row.notes.map(note => (
        <div key={note.key} className="jp-GpuGuard-Note" data-note={note.key}>
          {note.text}
        </div>
      ))}
      <RowActions row={row} whyId={whyId} doors={doors} trans={trans} />
      {row.why !== null && (
        <Why
          id={whyId}
          why={row.why}
          onExplain={() => doors.explain(row.owner)}
          onPolicy={doors.showPolicy}
          trans={trans}
        />
      )}
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
