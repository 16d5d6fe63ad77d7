import type { IGpuGuard } from '../tokens';
import type { WireReport } from '../wire';

/** What was read at one moment (milliseconds on the server's clock). Null: it was not known then. */
export interface IPoint {
  readonly at: number;
  readonly memory: number | null;
  readonly compute: number | null;
}

const HOUR_MS = 3_600_000;
/** Closer than this, a new point would not be seen as one of its own. */
const GRAIN_MS = 10_000;

/** What this page has seen of each device and holder in the last hour. */
export class Recorder {
  constructor(private readonly guard: IGpuGuard) {
    guard.changed.connect(this.look);
    this.look();
  }

  /** The points of a device's UUID or an owner, in the order of time. */
  of(key: string): readonly IPoint[] {
    return this.lines.get(key) ?? [];
  }

  private readonly look = (): void => {
    const { report } = this.guard;
    if (report === null || report.taken_at === null || report.taken_at === this.newest) {
      return;
    }
    this.newest = report.taken_at;
    const at = Date.parse(report.taken_at);
    for (const { key, memory, compute } of readingsOf(report)) {
      const line = (this.lines.get(key) ?? []).filter(point => point.at > at - HOUR_MS);
      const before = line[line.length - 2] as IPoint | undefined;
      if (before !== undefined && at - before.at < GRAIN_MS) {
        line.pop(); // the newest always shows, and those before it keep their distance
      }
      this.lines.set(key, [...line, { at, memory, compute }]);
    }
    for (const [key, line] of this.lines) {
      if (line[line.length - 1].at <= at - HOUR_MS) {
        this.lines.delete(key);
      }
    }
  };

  private readonly lines = new Map<string, IPoint[]>();
  private newest: string | null = null;
}

function readingsOf(report: WireReport): { key: string; memory: number | null; compute: number | null }[] {
  return [
    ...report.devices.map(device => ({
      key: device.uuid,
      memory: device.memory_used_bytes,
      compute: device.compute_percent
    })),
    ...report.holders.map(holder => ({
      key: holder.owner,
      memory: holder.memory_bytes,
      compute: holder.compute_percent
    }))
  ];
}
