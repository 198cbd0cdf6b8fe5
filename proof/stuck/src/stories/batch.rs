//! Jobs and CronJobs.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 4,
        title: "the CronJob is suspended",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "*/1 * * * *"
  suspend: true
  jobTemplate:
    spec:
      template:
        
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("cronjob", "report"),
        truth: Truth::Cause(Code::Suspended, "spec.suspend", "CronJob"),
    },
    Story {
        question: 4,
        title: "the time zone is unknown",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"schedule": "0 * * * *", "timeZone": "Mars/Olympus", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}}
"#,
        )],
        about: ("cronjob", "report"),
        truth: Truth::Cause(Code::ScheduleInvalid, "Mars/Olympus", "CronJob"),
    },
    Story {
        question: 4,
        title: "the previous Job still runs, and the policy is Forbid",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "*/1 * * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {simulate.steersman.dev/behaviour: hang}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
            ),
            Step::Wait(300),
        ],
        about: ("cronjob", "report"),
        truth: Truth::Cause(Code::RunForbidden, "Forbid", "CronJob"),
    },
    Story {
        question: 4,
        title: "a ResourceQuota refuses the Job",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {count/jobs.batch: "0"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "*/1 * * * *"
  
  jobTemplate:
    spec:
      template:
        
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
            ),
            Step::Wait(180),
        ],
        about: ("cronjob", "report"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 4,
        title: "the next run is tomorrow",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 3 * * *"
  
  jobTemplate:
    spec:
      template:
        
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("cronjob", "report"),
        truth: Truth::Moves(Code::NextRun),
    },
    Story {
        question: 12,
        title: "the Job is suspended",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  suspend: true
  template:
    
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("job", "task"),
        truth: Truth::Cause(Code::Suspended, "spec.suspend", "Job"),
    },
    Story {
        question: 12,
        title: "another controller manages the Job",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  managedBy: kueue.x-k8s.io/multikueue
  template:
    
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("job", "task"),
        truth: Truth::Cause(Code::ManagedElsewhere, "multikueue", "multikueue"),
    },
    Story {
        question: 12,
        title: "the Job has reached its back-off limit",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {simulate.steersman.dev/behaviour: fail}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("job", "task"),
        truth: Truth::Cause(Code::JobFailed, "BackoffLimitExceeded", "Job"),
    },
    Story {
        question: 12,
        title: "a ResourceQuota refuses the pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "0"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  
  template:
    
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
            ),
        ],
        about: ("job", "task"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 12,
        title: "the pod waits for its next try after a failure",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  backoffLimit: 6
  template:
    metadata: {annotations: {simulate.steersman.dev/behaviour: fail}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
            ),
            Step::Wait(20),
        ],
        about: ("job", "task"),
        truth: Truth::Moves(Code::JobBackOff),
    },
    Story {
        question: 12,
        title: "the Job is complete",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  
  template:
    
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("job", "task"),
        truth: Truth::Fine,
    },
];
