import { act, render } from '@testing-library/react';
import React from 'react';
import { useCalm, useNear } from '../components/calm';
import { english } from '../language';
import { type IRow, rowsOf } from '../rows';
import { GIB, holder, NOW, report } from './fixtures';

/** Says what the test says: whether the row can be seen. */
class FakeObserver {
  static last: FakeObserver | null = null;
  constructor(private readonly tell: (entries: { isIntersecting: boolean }[]) => void) {
    FakeObserver.last = this;
  }
  observe(): void {
    this.see(true);
  }
  disconnect(): void {
    FakeObserver.last = null;
  }
  see(isIntersecting: boolean): void {
    this.tell([{ isIntersecting }]);
  }
}

const rowOf = (gib: number, unfolded: string[] = []): IRow =>
  rowsOf(() => true, report({ holders: [holder({ memory_bytes: gib * GIB })] }), NOW, english, new Set(unfolded))[0];

function Line({ row }: { row: IRow }): React.JSX.Element {
  const node = React.useRef<HTMLDivElement>(null);
  return <div ref={node}>{useCalm(row, useNear(node)).memory?.text}</div>;
}

const original = globalThis.IntersectionObserver;

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true, IntersectionObserver: FakeObserver });
});

afterEach(() => {
  Object.assign(globalThis, { IntersectionObserver: original });
  jest.useRealTimers();
});

describe('a row', () => {
  it('is drawn with each report in sight, and out of sight once in a while, when seen again, or when unfolded', () => {
    const { container, rerender, unmount } = render(<Line row={rowOf(1)} />);
    const draw = (row: IRow): string | null => {
      rerender(<Line row={row} />);
      return container.textContent;
    };
    expect(draw(rowOf(2))).toBe('2.0 GiB');
    act(() => FakeObserver.last?.see(false));
    expect(draw(rowOf(3))).toBe('2.0 GiB');
    jest.setSystemTime(NOW + 130_000);
    expect(draw(rowOf(4))).toBe('4.0 GiB');
    expect(draw(rowOf(5))).toBe('4.0 GiB');
    act(() => FakeObserver.last?.see(true));
    expect(container.textContent).toBe('5.0 GiB');
    act(() => FakeObserver.last?.see(false));
    expect(draw(rowOf(6, ['kernel:k1']))).toBe('6.0 GiB');
    unmount();
    expect(FakeObserver.last).toBeNull();
  });
});
