import type { INotifier } from '../actions';
import { type Act, Fault, type IApi, type IReportAnswer } from '../api';
import type {
  WireDevice,
  WireEffectivePolicy,
  WireExplanation,
  WireHealth,
  WireHolder,
  WireKeep,
  WireNotice,
  WireOutcome,
  WireReport
} from '../wire';

export const GIB = 2 ** 30;
/** The moment at which all of these reports are read. */
export const NOW = Date.parse('2026-11-30T14:18:00Z');

export const after = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

export function holder(changes: Partial<WireHolder> = {}): WireHolder {
  const memory = changes.memory_bytes === undefined ? 6 * GIB : changes.memory_bytes;
  return {
    owner: 'kernel:k1',
    kind: 'kernel',
    name: 'demo.ipynb',
    notebook: 'work/demo.ipynb',
    kernelspec: 'python3',
    state: 'idle',
    memory_bytes: memory,
    compute_percent: 0,
    idle_seconds: 4800,
    started_at: after(-9000),
    longest_keep_seconds: 8 * 3600,
    holdings: memory
      ? [
          {
            device: 'GPU-a',
            memory_bytes: memory,
            compute_percent: 0,
            processes: [
              { pid: 4321, started_at: after(-9000), device: 'GPU-a', memory_bytes: memory, compute_percent: 0 }
            ]
          }
        ]
      : [],
    verdict: verdict(),
    protections: [],
    lease: null,
    leftovers: [],
    ...changes
  };
}

export function verdict(changes: Partial<WireHolder['verdict']> = {}): WireHolder['verdict'] {
  return {
    action: 'keep',
    next_action: 'shutdown',
    stage: 1,
    rule: 'default',
    deadline: after(14.5 * 60),
    reasons: [
      {
        code: 'idle-too-long',
        text: 'Holds 6.0 GiB.',
        facts: {
          idle_seconds: 4800,
          for_seconds: 3600,
          memory_bytes: 6 * GIB,
          compute_percent: 0,
          compute_below_percent: 5
        }
      }
    ],
    ...changes
  };
}

export function device(changes: Partial<WireDevice> = {}): WireDevice {
  return {
    uuid: 'GPU-a',
    index: 0,
    name: 'NVIDIA H100',
    memory_total_bytes: 80 * GIB,
    memory_used_bytes: 20 * GIB,
    memory_unattributed_bytes: 2 * GIB,
    compute_percent: 35,
    temperature_celsius: 58,
    power_watts: 310,
    mig: false,
    state: 'ok',
    ...changes
  };
}

export function notice(changes: Partial<WireNotice> = {}): WireNotice {
  return {
    id: 'n1',
    owner: 'kernel:k1',
    name: 'demo.ipynb',
    notebook: 'work/demo.ipynb',
    rule: 'default',
    next_action: 'shutdown',
    given_at: after(-60),
    deadline: after(14.5 * 60),
    memory_bytes: 6 * GIB,
    longest_keep_seconds: 8 * 3600,
    reasons: [],
    ...changes
  };
}

export function outcome(changes: Partial<WireOutcome> = {}): WireOutcome {
  return {
    id: 'o1',
    owner: 'kernel:k1',
    name: 'demo.ipynb',
    notebook: 'work/demo.ipynb',
    action: 'shutdown',
    rule: 'default',
    result: 'done',
    at: after(-120),
    by: null,
    detail: 'Ended by Jupyter.',
    freed_bytes: 6 * GIB,
    took_seconds: 0.4,
    survivors: [],
    reasons: verdict().reasons,
    ...changes
  };
}

export function report(changes: Partial<WireReport> = {}): WireReport {
  return {
    schema_version: 1,
    taken_at: after(-2),
    interval_seconds: 5,
    mode: 'enforce',
    simulated: false,
    policy: { hash: 'abc', source: 'built-in defaults', fault: null },
    gaps: [],
    devices: [device()],
    holders: [holder()],
    strangers: [],
    notices: [],
    outcomes: [],
    ...changes
  };
}

/** A server that says what it is told to say, and remembers what it was asked. */
export class FakeApi implements IApi {
  answer: WireReport | Fault = report();
  serverTime: number | null = null;
  refusal: Fault | null = null;
  readonly asked: string[] = [];

  async report(): Promise<IReportAnswer> {
    this.asked.push('report');
    await this.gate;
    if (this.answer instanceof Fault) {
      throw this.answer;
    }
    return { report: this.answer, serverTime: this.serverTime };
  }

  explain(owner: string): Promise<WireExplanation> {
    return Promise.resolve({
      holder: holder({ owner }),
      lines: ['Rule: default.'],
      passed_over: [{ rule: 'students', unmet: ['group'] }]
    });
  }

  health(): Promise<WireHealth> {
    return Promise.resolve({
      status: 'degraded',
      version: '0.1.0',
      mode: 'enforce',
      simulated: false,
      last_tick_at: null,
      ticks: 0,
      problems: ['The driver does not answer.']
    });
  }

  keep(owner: string, { seconds, reason }: WireKeep): Promise<void> {
    return this.told(`keep ${owner} ${seconds} ${reason ?? ''}`.trim());
  }

  stopKeeping(owner: string): Promise<void> {
    return this.told(`stop keeping ${owner}`);
  }

  async act(owner: string, act: Act): Promise<WireOutcome | null> {
    await this.told(`${act} ${owner}`);
    return this.came;
  }

  policy(): Promise<WireEffectivePolicy> {
    return Promise.resolve(this.inForce);
  }

  /** What came of the acts. */
  came: WireOutcome | null = null;

  inForce: WireEffectivePolicy = {
    hash: 'abc',
    source: '/etc/jupyter/gpu-guard/policy.d/site.yaml',
    mode: 'enforce',
    fault: null,
    pending: null,
    belts: { shutdowns_per_hour: 20 },
    rules: [
      {
        name: 'students',
        match: { group: 'students' },
        settings: { keep: false, notice_seconds: 900, 'idle.for_seconds': 1800, 'idle.memory_above_bytes': 2 ** 29 },
        ladder: [
          { do: 'warn', after_seconds: 0 },
          { do: 'shutdown', after_seconds: 900 }
        ]
      },
      { name: 'default', match: {}, settings: {}, ladder: [] }
    ]
  };

  /** Answers to `report` wait for this. */
  gate: Promise<void> = Promise.resolve();

  private told(what: string): Promise<void> {
    this.asked.push(what);
    return this.refusal ? Promise.reject(this.refusal) : Promise.resolve();
  }
}

interface IFakeToast {
  message: string;
  type: string;
  options: Parameters<INotifier['warning']>[1];
}

/** JupyterLab's notifications as a list. */
export class FakeNotifier implements INotifier {
  readonly toasts = new Map<string, IFakeToast>();
  updates = 0;

  success = (message: string, options?: IFakeToast['options']): string => this.add('success', message, options);
  warning = (message: string, options?: IFakeToast['options']): string => this.add('warning', message, options);
  error = (message: string, options?: IFakeToast['options']): string => this.add('error', message, options);

  update(change: Parameters<INotifier['update']>[0]): boolean {
    const toast = this.toasts.get(change.id);
    if (!toast) {
      return false;
    }
    this.updates += 1;
    toast.message = change.message ?? toast.message;
    return true;
  }

  dismiss(id: string): void {
    this.toasts.delete(id);
  }

  get messages(): string[] {
    return [...this.toasts.values()].map(toast => toast.message);
  }

  /** Press the button `label` of the only toast. */
  press(label: string): void {
    const [toast] = [...this.toasts.values()];
    const action = toast.options?.actions?.find(candidate => candidate.label === label);
    if (!action) {
      throw new Error(`no button ${label}`);
    }
    action.callback(new MouseEvent('click'));
  }

  private add(type: string, message: string, options: IFakeToast['options']): string {
    const id = `t${++this.made}`;
    this.toasts.set(id, { type, message, options });
    return id;
  }

  private made = 0;
}

/** A browser's storage that may be full. */
export class FakeStorage implements Pick<Storage, 'getItem' | 'setItem'> {
  full = false;
  readonly items = new Map<string, string>();

  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    if (this.full) {
      throw new Error('QuotaExceededError');
    }
    this.items.set(key, value);
  }
}

/** A TensorBoard without GPU memory that somebody has looked at a while ago. */
export function board(
  changes: Partial<WireHolder> = {},
  particular: Partial<NonNullable<WireHolder['board']>> = {}
): WireHolder {
  return holder({
    owner: 'tensorboard:6006',
    kind: 'tensorboard',
    name: 'TensorBoard exp1',
    notebook: 'work/train.ipynb',
    kernelspec: null,
    memory_bytes: 0,
    holdings: [],
    idle_seconds: 300,
    started_at: after(-3 * 3600),
    verdict: verdict({ next_action: null, deadline: null, reasons: [] }),
    board: {
      log_dir: '/home/anna/runs/exp1',
      port: 6006,
      started_by: 'kernel:k1',
      started_by_name: 'train.ipynb',
      watchers: 0,
      unwatched_seconds: 300,
      duplicate: false,
      inside: false,
      ...particular
    },
    ...changes
  });
}

/** A terminal without GPU memory, in which two processes run besides its shell. */
export function terminal(changes: Partial<WireHolder> = {}): WireHolder {
  return holder({
    owner: 'terminal:1',
    kind: 'terminal',
    name: 'Terminal 1',
    notebook: null,
    kernelspec: null,
    memory_bytes: 0,
    holdings: [],
    tree_size: 3,
    verdict: verdict({ next_action: null, deadline: null, reasons: [] }),
    ...changes
  });
}
