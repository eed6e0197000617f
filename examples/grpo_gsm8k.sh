#!/usr/bin/env bash
# GRPO on GSM8K, one node with 8 GPUs. Ships with verl-doctor as an example of a healthy launch with one thing to think about.
set -euo pipefail

PROJECT=${PROJECT:-gsm8k}
EXPERIMENT=${EXPERIMENT:-qwen3_8b_grpo}
DATA=${DATA:-$HOME/data/gsm8k}

# No key is needed: the run is kept on disk and can be uploaded later with `wandb sync`.
export WANDB_MODE=offline

TRAINER=(
    trainer.logger='["console","wandb"]'
    trainer.project_name="$PROJECT"
    trainer.experiment_name="$EXPERIMENT"
    trainer.n_gpus_per_node=8
    trainer.nnodes=1
    trainer.save_freq=20
    trainer.test_freq=5
    trainer.total_epochs=15
    trainer.log_val_generations=100 # rebuilt and stored again, with all earlier rows, at every validation
)

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$DATA/train.parquet" \
    data.val_files="$DATA/test.parquet" \
    data.train_batch_size=1024 \
    data.max_prompt_length=512 \
    data.max_response_length=1024 \
    actor_rollout_ref.model.path=Qwen/Qwen3-8B \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.n=5 \
    "${TRAINER[@]}" "$@"
