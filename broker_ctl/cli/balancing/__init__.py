"""Commands that control the balancer: plan, pause, drain."""
