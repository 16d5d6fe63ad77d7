import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { IArrangement } from '../arrange';
import type { IRow } from '../rows';
import type { IPanelView, IRemark } from '../view';
import { Arrange } from './Arrange';
import { Card } from './Card';
import { DeviceCard } from './DeviceCard';
import { HolderRow } from './HolderRow';
import { Past } from './Past';
import type { IRowDoors } from './RowActions';

interface IProps {
  readonly view: IPanelView;
  readonly revealed: { readonly owner: string; readonly turn: number } | null;
  readonly doors: IRowDoors;
  readonly arrangement: IArrangement;
  readonly onArrange: (arrangement: IArrangement) => void;
  readonly trans: TranslationBundle;
}

/** All that a report says, from the top of the panel to its foot. */
export function Body({ view, revealed, doors, arrangement, onArrange, trans }: IProps): React.JSX.Element {
  const blind = view.devices.length === 0;
  const list = (rows: readonly IRow[]): React.JSX.Element => (
    <ul className="jp-GpuGuard-List">
      {rows.map(row => (
        <HolderRow
          key={row.owner}
          row={row}
          revealed={revealed?.owner === row.owner ? revealed.turn : 0}
          doors={doors}
          trans={trans}
        />
      ))}
    </ul>
  );
  return (
    <>
      {view.policyFault !== null && (
        <Card tone="warning" title={trans.__('The newest policy was not taken.')}>
          <pre>{view.policyFault}</pre>
        </Card>
      )}
      {view.policyWaits !== null && (
        <Card tone="warning" title={trans.__('A new policy is not in force yet.')}>
          {view.policyWaits}
        </Card>
      )}
      {view.late !== null && <Card tone="warning">{view.late}</Card>}
      <Gaps gaps={view.gaps} />
      {view.cost !== null && (
        <p className="jp-GpuGuard-Cost" title={view.cost.title}>
          {view.cost.text}
        </p>
      )}
      <Arrange
        arrangement={arrangement}
        rows={view.countAll}
        devices={view.devices.length}
        onChange={onArrange}
        trans={trans}
      />
      <section aria-label={trans.__('Notebooks that hold GPU memory')}>
        {view.groups === null
          ? view.rows.length > 0 && list(view.rows)
          : view.groups.map(group => (
              <React.Fragment key={group.key}>
                <h3>{group.title}</h3>
                {list(group.rows)}
              </React.Fragment>
            ))}
        {view.rows.length === 0 && !(blind && view.gaps.length > 0) && (
          <p className="jp-GpuGuard-Quiet">
            {arrangement.filter.trim() === ''
              ? trans.__('No notebook holds GPU memory.')
              : trans.__('No notebook fits “%1”.', arrangement.filter.trim())}
          </p>
        )}
        {view.quiet !== null && (
          <details className="jp-GpuGuard-Fold">
            <summary>{view.quiet.text}</summary>
            <ul>
              {view.quiet.names.map((name, index) => (
                <li key={index}>{name}</li>
              ))}
            </ul>
          </details>
        )}
      </section>
      <Rows title={trans.__('TensorBoards')} rows={view.boards} list={list} />
      <Rows title={trans.__('Terminals')} rows={view.terminals} list={list} />
      <Rows title={trans.__('Left behind')} rows={view.leftBehind} list={list} />
      <Rows title={trans.__('Other')} rows={view.others} list={list} />
      {!blind && (
        <section>
          <h3>{trans.__('Devices')}</h3>
          <ul className="jp-GpuGuard-List">
            {view.devices.map(device => (
              <DeviceCard key={device.uuid} device={device} trans={trans} />
            ))}
          </ul>
        </section>
      )}
      <Past past={view.past} revealed={revealed} trans={trans} />
    </>
  );
}

function Gaps({ gaps }: { gaps: readonly IRemark[] }): React.JSX.Element {
  return (
    <>
      {gaps.map(gap => (
        <Card key={gap.key} tone="plain">
          {gap.text}
        </Card>
      ))}
    </>
  );
}

/** A section that is only there while it has rows. */
function Rows(props: {
  title: string;
  rows: readonly IRow[];
  list: (rows: readonly IRow[]) => React.JSX.Element;
}): React.JSX.Element | null {
  return props.rows.length === 0 ? null : (
    <section>
      <h3>{props.title}</h3>
      {props.list(props.rows)}
    </section>
  );
}
