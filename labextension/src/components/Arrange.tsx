import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { type IArrangement, type Sort, SORTS, sortText } from '../arrange';

interface IProps {
  readonly arrangement: IArrangement;
  readonly rows: number;
  readonly devices: number;
  readonly onChange: (arrangement: IArrangement) => void;
  readonly trans: TranslationBundle;
}

/** From so many rows on there is something to put in order, or to look for. */
const SORTED_FROM = 2;
const FILTERED_FROM = 6;

/** Order, filter and grouping, each once there is enough for it. */
export const Arrange = React.memo(function Arrange(props: IProps): React.JSX.Element | null {
  const { arrangement, rows, devices, onChange, trans } = props;
  if (rows < SORTED_FROM) {
    return null;
  }
  return (
    <div className="jp-GpuGuard-Arrange" role="group" aria-label={trans.__('Order of the rows')}>
      {(rows >= FILTERED_FROM || arrangement.filter !== '') && (
        <Filter
          filter={arrangement.filter}
          onChange={filter => {
            onChange({ ...arrangement, filter });
          }}
          trans={trans}
        />
      )}
      <label className="jp-GpuGuard-Choice">
        {trans.__('Order')}{' '}
        <select
          className="jp-GpuGuard-Input"
          value={arrangement.sort}
          onChange={event => {
            onChange({ ...arrangement, sort: event.target.value as Sort });
          }}
        >
          {SORTS.map(sort => (
            <option key={sort} value={sort}>
              {sortText(sort, trans)}
            </option>
          ))}
        </select>
      </label>
      {devices > 1 && (
        <label className="jp-GpuGuard-Choice">
          <input
            type="checkbox"
            checked={arrangement.grouped}
            onChange={event => {
              onChange({ ...arrangement, grouped: event.target.checked });
            }}
          />{' '}
          {trans.__('By device')}
        </label>
      )}
    </div>
  );
});

/** Keeps what is typed by itself: the panel is drawn a moment later, and must not take letters back meanwhile. */
function Filter(props: {
  filter: string;
  onChange: (filter: string) => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  const [text, setText] = React.useState(props.filter);
  return (
    <input
      type="search"
      className="jp-GpuGuard-Input"
      aria-label={props.trans.__('Filter by name')}
      placeholder={props.trans.__('Filter')}
      value={text}
      onChange={event => {
        setText(event.target.value);
        props.onChange(event.target.value);
      }}
    />
  );
}
