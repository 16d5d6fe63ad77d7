const LONGEST = 200;

/** A few ids that this browser remembers across reloads of the page. Forgetting only shows one again. */
export class Seen {
  constructor(
    private readonly storage: Pick<Storage, 'getItem' | 'setItem'>,
    private readonly key: string
  ) {}

  has(id: string): boolean {
    return this.read().includes(id);
  }

  add(...ids: string[]): void {
    const all = [...this.read().filter(id => !ids.includes(id)), ...ids];
    try {
      this.storage.setItem(this.key, JSON.stringify(all.slice(-LONGEST)));
    } catch {
      // full or forbidden: it is shown once more
    }
  }

  private read(): string[] {
    try {
      const kept: unknown = JSON.parse(this.storage.getItem(this.key) ?? '[]');
      return Array.isArray(kept) ? kept.filter((id): id is string => typeof id === 'string') : [];
    } catch {
      return [];
    }
  }
}
