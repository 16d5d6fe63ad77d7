import type { IRow } from './rows';
import type { IPanelView } from './view';

/** Keeps rows in their places while a person is about to press something there, so that none moves away beneath. */
export class Order {
  /** Whether a pointer is over the rows. */
  pointed = false;
  /** Whether a menu of a row is open. */
  choosing = false;

  get held(): boolean {
    return this.pointed || this.choosing;
  }

  /** `view` with its rows where they were while the order is held; what is new comes last. */
  settle(view: IPanelView): IPanelView {
    const lists = [view.rows, view.boards, view.terminals, view.leftBehind, view.others];
    const [rows, boards, terminals, leftBehind, others] = this.held ? lists.map(this.asBefore) : lists;
    const groups = view.groups?.map(group => ({
      ...group,
      rows: this.held ? this.asBefore(group.rows) : group.rows
    }));
    this.places = new Map(
      [rows, boards, terminals, leftBehind, others].flat().map(({ owner }, index) => [owner, index])
    );
    return { ...view, rows, groups: groups ?? null, boards, terminals, leftBehind, others };
  }

  /** The next view decides anew, held or not: a person has asked for another order. */
  forget(): void {
    this.places.clear();
  }

  private readonly asBefore = (rows: readonly IRow[]): IRow[] =>
    [...rows].sort((a, b) => this.placeOf(a) - this.placeOf(b));

  private placeOf({ owner }: IRow): number {
    return this.places.get(owner) ?? Number.MAX_SAFE_INTEGER;
  }

  private places = new Map<string, number>();
}
