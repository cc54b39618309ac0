package main

import (
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

// tokenRule is a credential that shows itself: any of its patterns, anywhere.
type tokenRule struct {
	kind     string // without SECRET_
	severity scanner.Severity
	entropy  int      // least entropy, hundredths of a bit per byte
	patterns []string // see compile
}

const (
	crit = scanner.Critical
	high = scanner.High
	med  = scanner.Medium
)

// tokenRules is all credentials that show themselves.
var tokenRules = slices.Concat(issuerRules, serviceRules)

// issuerRules is the list of issuers whose tokens carry a mark. Sorted by trade, then by name.
var issuerRules = []tokenRule{
	{"YETT_API_KEY", crit, 300, []string{"yett_<w:12>_<w:49>"}},
	// clouds and hosting
	{"AWS_ACCESS_KEY_ID", crit, 300, []string{"AKIA<A:16>", "ASIA<A:16>", "ABIA<A:16>", "ACCA<A:16>", "A3T<A:17>"}},
	{"AWS_BEDROCK_API_KEY", crit, 300, []string{"ABSK<s:109-269>", "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t<s:0-2000>"}},
	{"AZURE_AD_CLIENT_SECRET", crit, 300, []string{"<W~.-:3><d:1>{Q~}<W~.-:31-34>"}},
	{"AZURE_STORAGE_KEY", crit, 400, []string{"AccountKey=<s:86-88>", "SharedAccessKey=<s:43-88>"}},
	{"ALIBABA_ACCESS_KEY_ID", high, 300, []string{"LTAI<w:17-21>"}},
	{"CLOUDFLARE_ORIGIN_CA_KEY", crit, 200, []string{"v1.0-<x:24>-<x:146>"}},
	{"DATABRICKS_API_TOKEN", crit, 300, []string{"dapi<x:32>", "dapi<x:32>-<d:1>"}},
	{"DIGITALOCEAN_TOKEN", crit, 300, []string{"doo_v1_<x:64>", "dop_v1_<x:64>", "dor_v1_<x:64>"}},
	{"DOPPLER_TOKEN", crit, 200, []string{"dp.pt.<w:40-44>", "dp.st.<b.:40-80>", "dp.ct.<w:40-44>", "dp.sa.<w:40-44>", "dp.scim.<w:40-44>", "dp.audit.<w:40-44>"}},
	{"FLYIO_TOKEN", crit, 400, []string{"fo1_<b:43>", "fm1a_<s:100-4000>", "fm1r_<s:100-4000>", "fm2_<s:100-4000>"}},
	{"GCP_API_KEY", high, 400, []string{"AIza<b:35>"}},
	{"GCP_OAUTH_SECRET", crit, 300, []string{"GOCSPX-<b:28>"}},
	{"GCP_ACCESS_TOKEN", crit, 350, []string{"ya29.<b.:40-1000>"}},
	{"HEROKU_API_KEY", crit, 400, []string{"HRKU-AA<b:58>"}},
	{"HETZNER_TOKEN", crit, 300, []string{"hcloud_<w:64>"}},
	{"NETLIFY_TOKEN", crit, 350, []string{"nfp_<w:36-40>"}},
	{"PLANETSCALE_TOKEN", crit, 300, []string{"pscale_tkn_<e.:32-64>", "pscale_oauth_<e.:32-64>", "pscale_pw_<e.:32-64>"}},
	{"RENDER_API_KEY", crit, 300, []string{"rnd_<w:28-40>"}},
	{"SCALINGO_TOKEN", crit, 200, []string{"tk-us-<b:48>"}},
	{"SUPABASE_TOKEN", crit, 300, []string{"sbp_<x:40>", "sb_secret_<b:30-60>"}},
	{"TAILSCALE_KEY", crit, 0, []string{"tskey-<c:3-12>-<w:8-24>-<w:20-48>"}},
	{"VERCEL_TOKEN", crit, 350, []string{"vcp_<w:24-64>", "vck_<w:24-64>", "vercel_blob_rw_<W:30-80>"}},
	{"YANDEX_API_KEY", crit, 300, []string{"AQVN<b:35-38>"}},
	{"YANDEX_ACCESS_TOKEN", crit, 300, []string{"t1.<A:1-1>.<e:80-100>", "t1.9<e:40-400>.<e:80-100>"}},
	// code, packages, builds
	{"ARTIFACTORY_API_KEY", crit, 450, []string{"AKCp<w:69>"}},
	{"ARTIFACTORY_REFERENCE_TOKEN", crit, 450, []string{"cmVmd<w:59>"}},
	{"ATLASSIAN_API_TOKEN", crit, 350, []string{"ATATT3<e:186>", "ATCTT3<e:160-200>", "ATBB<w:32>"}},
	{"BUILDKITE_TOKEN", crit, 300, []string{"bkua_<x:40>"}},
	{"CIRCLECI_TOKEN", crit, 300, []string{"CCIPAT_<w:20-30>_<x:40>"}},
	{"CLOJARS_TOKEN", crit, 200, []string{"CLOJARS_<w:60>"}},
	{"CONTENTFUL_TOKEN", high, 300, []string{"CFPAT-<b:43>"}},
	{"DOCKER_TOKEN", crit, 300, []string{"dckr_pat_<b:27>", "dckr_oat_<b:27-40>"}},
	{"FIGMA_TOKEN", high, 300, []string{"figd_<b:40-43>"}},
	{"GITHUB_PAT", crit, 300, []string{"ghp_<w:36-255>"}},
	{"GITHUB_FINE_GRAINED_PAT", crit, 300, []string{"github_pat_<W:82-255>"}},
	{"GITHUB_OAUTH_TOKEN", crit, 300, []string{"gho_<w:36-255>"}},
	{"GITHUB_APP_TOKEN", crit, 300, []string{"ghu_<w:36-255>", "ghs_<w:36-255>"}},
	{"GITHUB_REFRESH_TOKEN", crit, 300, []string{"ghr_<w:36-255>"}},
	{"GITLAB_PAT", crit, 300, []string{"glpat-<b:20-300>", "glpat-<b:27-300>.<a:9>"}},
	{"GITLAB_DEPLOY_TOKEN", crit, 300, []string{"gldt-<b:20-64>"}},
	{"GITLAB_JOB_TOKEN", crit, 300, []string{"glcbt-<w:1-5>_<b:20-64>"}},
	{"GITLAB_FEATURE_FLAG_TOKEN", high, 300, []string{"glffct-<b:20-64>"}},
	{"GITLAB_FEED_TOKEN", high, 300, []string{"glft-<b:20-64>"}},
	{"GITLAB_MAIL_TOKEN", high, 300, []string{"glimt-<b:25-64>"}},
	{"GITLAB_AGENT_TOKEN", crit, 300, []string{"glagent-<b:50-100>"}},
	{"GITLAB_OAUTH_SECRET", crit, 300, []string{"gloas-<b:64-100>"}},
	{"GITLAB_TRIGGER_TOKEN", crit, 300, []string{"glptt-<b:40>"}},
	{"GITLAB_RUNNER_TOKEN", crit, 300, []string{"GR1348941<b:20-50>", "glrt-<b:20-300>", "glrt-t<d:1>_<b:27-300>.<a:9>", "glrtr-<b:20-300>"}},
	{"GITLAB_SCIM_TOKEN", crit, 300, []string{"glsoat-<b:20-64>"}},
	{"GITLAB_SESSION", crit, 300, []string{"_gitlab_session=<w:32>"}},
	{"HARNESS_API_KEY", crit, 300, []string{"pat.<b:22>.<w:24>.<w:20>", "sat.<b:22>.<w:24>.<w:20>"}},
	{"LINEAR_API_KEY", crit, 200, []string{"lin_api_<w:40-48>", "lin_oauth_<w:40-64>"}},
	{"NOTION_TOKEN", crit, 400, []string{"ntn_<d:11><w:35>", "secret_<w:43>"}},
	{"NPM_TOKEN", crit, 200, []string{"npm_<w:36>"}},
	{"NUGET_API_KEY", crit, 300, []string{"oy2<a:43>"}},
	{"OCTOPUS_API_KEY", crit, 300, []string{"API-<A:26>"}},
	{"POSTMAN_API_KEY", crit, 300, []string{"PMAK-<X:24>-<X:34>"}},
	{"PULUMI_TOKEN", crit, 200, []string{"pul-<x:40>"}},
	{"PYPI_TOKEN", crit, 300, []string{"pypi-AgEIcHlwaS5vcmc<b:50-1000>", "pypi-AgENdGVzdC5weXBpLm9yZ<b:50-1000>"}},
	{"README_TOKEN", high, 200, []string{"rdme_<a:70>"}},
	{"RUBYGEMS_TOKEN", crit, 200, []string{"rubygems_<x:48>"}},
	{"SONAR_TOKEN", high, 300, []string{"squ_<x:40>", "sqp_<x:40>", "sqa_<x:40>"}},
	{"SOURCEGRAPH_TOKEN", crit, 300, []string{"sgp_<X:40>", "sgp_<X:16>_<X:40>", "sgp_local_<X:40>"}},
	{"TERRAFORM_TOKEN", crit, 350, []string{"<w:14>{.atlasv1.}<e:60-70>"}},
	// chat and mail
	{"DISCORD_WEBHOOK", high, 300, []string{"discord.com/api/webhooks/<d:17-20>/<b:60-80>", "discordapp.com/api/webhooks/<d:17-20>/<b:60-80>"}},
	{"MAILCHIMP_KEY", crit, 300, []string{"<x:32>{-us}<d:1-2>"}},
	{"MAILGUN_KEY", crit, 300, []string{"key-<x:32>", "pubkey-<x:32>"}},
	{"SENDGRID_KEY", crit, 200, []string{"SG.<e.:66>"}},
	{"SENDINBLUE_KEY", crit, 200, []string{"xkeysib-<x:64>-<w:16>", "xsmtpsib-<x:64>-<w:16>"}},
	{"SLACK_APP_TOKEN", crit, 200, []string{"xapp-<d:1>-<A:8-15>-<d:8-15>-<a:30-80>"}},
	{"SLACK_BOT_TOKEN", crit, 250, []string{"xoxb-<d:8-14>-<b:14-60>", "xoxb-<d:8-14>-<d:10-14>"}},
	{"SLACK_USER_TOKEN", crit, 200, []string{"xoxp-<d:8-14>-<b:20-120>", "xoxe-<d:8-14>-<b:20-120>"}},
	{"SLACK_LEGACY_TOKEN", crit, 200, []string{"xoxs-<d:8-14>-<b:20-120>", "xoxo-<d:8-14>-<b:10-120>", "xoxa-<d:8-14>-<b:10-120>", "xoxr-<d:8-14>-<b:10-120>", "xoxa-<d:1-2>-<b:8-80>", "xoxr-<d:1-2>-<b:8-80>", "xoxa-<w:8-48>", "xoxr-<w:8-48>"}},
	{"SLACK_CONFIG_TOKEN", crit, 200, []string{"xoxe.xoxp-<d:1>-<w:140-180>", "xoxe.xoxb-<d:1>-<w:140-180>", "xoxe-<d:1>-<w:140-180>"}},
	{"SLACK_WEBHOOK", high, 300, []string{"hooks.slack.com/services/<w/+:40-80>", "hooks.slack.com/workflows/<w/+:40-80>", "hooks.slack.com/triggers/<w/+:40-80>"}},
	{"TEAMS_WEBHOOK", high, 300, []string{"webhook.office.com/webhookb2/<h@:60-90>/IncomingWebhook/<x:32>/<h:36>", "webhook.office.com/webhookb2/<h@:60-90>/IncomingWebhook/<x:32>/<h:36>/<b:20-60>"}},
	{"TELEGRAM_BOT_TOKEN", crit, 300, []string{"<d:8>{:AA}<b:33>", "<d:9>{:AA}<b:33>", "<d:10>{:AA}<b:33>"}},
	// money and shops
	{"DUFFEL_TOKEN", high, 200, []string{"duffel_test_<e:43>", "duffel_live_<e:43>"}},
	{"EASYPOST_KEY", high, 200, []string{"EZAK<w:54>", "EZTK<w:54>"}},
	{"FLUTTERWAVE_KEY", crit, 200, []string{"FLWSECK_TEST-<x:32>-X", "FLWSECK_TEST-<x:12>", "FLWPUBK_TEST-<x:32>-X", "FLWSECK-<x:32>-X", "FLWPUBK-<x:32>-X"}},
	{"PAYPAL_TOKEN", crit, 300, []string{"access_token$production$<a:16>$<x:32>", "access_token$sandbox$<a:16>$<x:32>"}},
	{"PLAID_TOKEN", crit, 300, []string{"access-sandbox-<h:36>", "access-development-<h:36>", "access-production-<h:36>"}},
	{"RAZORPAY_KEY", high, 300, []string{"rzp_live_<w:14>", "rzp_test_<w:14>"}},
	{"SHIPPO_TOKEN", high, 200, []string{"shippo_live_<X:40>", "shippo_test_<X:40>"}},
	{"SHOPIFY_TOKEN", crit, 200, []string{"shpat_<X:32>", "shpca_<X:32>", "shppa_<X:32>", "shpss_<X:32>"}},
	{"SQUARE_TOKEN", crit, 200, []string{"sq0atp-<b:22>", "sq0csp-<b:43>", "sq0idp-<b:22>", "EAAA<b:60>"}},
	{"STRIPE_KEY", crit, 200, []string{"sk_live_<w:10-247>", "sk_test_<w:10-247>", "sk_prod_<w:10-247>", "rk_live_<w:10-247>", "rk_test_<w:10-247>", "rk_prod_<w:10-247>", "whsec_<s:32-80>"}},
	// models
	{"ANTHROPIC_API_KEY", crit, 300, []string{"sk-ant-api03-<b:93-95>", "sk-ant-admin01-<b:93-95>", "sk-ant-oat01-<b:90-110>", "sk-ant-sid01-<b:86-110>"}},
	{"GROQ_API_KEY", crit, 300, []string{"gsk_<w:52>"}},
	{"HUGGINGFACE_TOKEN", crit, 200, []string{"hf_<w:34-40>", "api_org_<l:34>"}},
	{"LANGSMITH_KEY", high, 300, []string{"lsv2_pt_<x:32>_<x:10>", "lsv2_sk_<x:32>_<x:10>"}},
	{"OPENAI_API_KEY", crit, 300, []string{"<b:0>{sk-}<w:20>T3BlbkFJ<w:20>", "sk-proj-<b:40-220>", "sk-svcacct-<b:40-220>", "sk-admin-<b:40-220>", "sk-<w:48>", "sk-or-v1-<x:64>"}},
	{"PERPLEXITY_API_KEY", crit, 400, []string{"pplx-<w:48>"}},
	{"PINECONE_API_KEY", crit, 300, []string{"pcsk_<W:50-80>"}},
	{"REPLICATE_TOKEN", crit, 300, []string{"r8_<w:37-40>"}},
	{"XAI_API_KEY", crit, 300, []string{"xai-<w:80>"}},
	// identity, secrets, monitoring and the rest
	{"1PASSWORD_SECRET_KEY", crit, 380, []string{"A3-<A:6>-<A:11>-<A:5>-<A:5>-<A:5>", "A3-<A:6>-<A:6>-<A:5>-<A:5>-<A:5>-<A:5>"}},
	{"1PASSWORD_SERVICE_TOKEN", crit, 400, []string{"ops_eyJ<s_:200-4000>"}},
	{"ADAFRUIT_KEY", high, 300, []string{"aio_<w:28>"}},
	{"AGE_SECRET_KEY", crit, 0, []string{"AGE-SECRET-KEY-1<A:58>"}},
	{"AUTHRESS_KEY", crit, 200, []string{"authress_<w:5-30>.<w:4-6>.acc_<b:10-32>.<e+/:30-120>"}},
	{"CLICKHOUSE_KEY", crit, 300, []string{"4b1d<w:38>"}},
	{"DEFINED_NETWORKING_TOKEN", crit, 300, []string{"dnkey-<e:79>"}},
	{"DROPBOX_TOKEN", crit, 300, []string{"sl.u.<b:130-1500>", "sl.<e:135-152>"}},
	{"DYNATRACE_TOKEN", crit, 300, []string{"dt0c01.<w:24>.<w:64>", "dt0s16.<w:8>.<w:64>"}},
	{"FACEBOOK_TOKEN", crit, 400, []string{"EAACEdEose0cBA<w:20-300>", "EAAB<w:100-300>", "EAAM<w:100-300>", "EAAC<w:100-300>", "EAAG<w:100-300>"}},
	{"FIREBASE_SERVER_KEY", crit, 300, []string{"AAAA<b:7>{:APA91b}<b:134>"}},
	{"FRAMEIO_TOKEN", high, 300, []string{"fio-u-<e:64>"}},
	{"GRAFANA_TOKEN", crit, 300, []string{"eyJrIjoi<s:70-400>", "glc_<s:32-400>", "glsa_<w:32>_<X:8>"}},
	{"INFRACOST_KEY", med, 300, []string{"ico-<w:32>"}},
	{"INTRA42_SECRET", crit, 300, []string{"s-s4t2ud-<x:64>", "s-s4t2af-<x:64>"}},
	{"MAPBOX_TOKEN", med, 200, []string{"pk.<w:60>.<w:22>", "pk.eyJ1<b:50-110>.<b:22>", "sk.eyJ1<b:50-110>.<b:22>"}},
	{"MAXMIND_KEY", high, 400, []string{"<w:6>_<w:29>{_mmk}"}},
	{"NATS_SEED", crit, 350, []string{"SU<u:56>", "SA<u:56>", "SO<u:56>", "SN<u:56>"}},
	{"NEWRELIC_KEY", crit, 200, []string{"NRAK-<w:27>", "NRII-<b:32>", "NRJS-<x:19>", "NRRA-<x:42>", "<x:36>{FFFFNRAL}"}},
	{"OPENSHIFT_TOKEN", crit, 350, []string{"sha256~<b:43>"}},
	{"PREFECT_KEY", crit, 200, []string{"pnu_<w:36>"}},
	{"SENTRY_TOKEN", crit, 300, []string{"sntryu_<x:64>"}},
	{"SETTLEMINT_TOKEN", high, 300, []string{"sm_aat_<w:16>", "sm_pat_<w:16>", "sm_sat_<w:16>"}},
	{"TYPEFORM_TOKEN", high, 300, []string{"tfp_<e.:59>"}},
	{"VAULT_TOKEN", crit, 350, []string{"hvs.<b:90-200>", "hvb.<b:138-300>", "hvr.<b:90-300>"}},
}
