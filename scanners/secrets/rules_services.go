package main

// serviceRules goes on from issuerRules: the tokens of smaller services, by trade, and what else shows itself.
var serviceRules = []tokenRule{
	// clouds, hosting, networks
	{"AKAMAI_TOKEN", crit, 300, []string{"akab-<a:16>-<a:16>"}},
	{"AWS_APPSYNC_KEY", high, 300, []string{"da2-<a:26>"}},
	{"AWS_LOGIN_SECRET", crit, 300, []string{"amzn1.oa2-cs.v1.<x:64>"}},
	{"AWS_MWS_TOKEN", crit, 280, []string{"amzn.mws.<x:8>-<x:4>-<x:4>-<x:4>-<x:12>"}},
	{"SIGNED_URL", high, 300, []string{"X-Amz-Signature=<x:64>"}},
	{"AZURE_DEVOPS_PAT", crit, 400, []string{"<w:76>{AZDO}<w:4>"}},
	{"AZURE_SERVICE_KEY", crit, 400, []string{"<s:76>{APIM}<s:8>", "<s:76>{ACDb}<s:8>", "<s:76>{+ABa}<s:8>", "<s:76>{+AMC}<s:8>", "<s:76>{+ASt}<s:8>", "<s:33>{AIoT}<s:7>", "<s:33>{+ASb}<s:7>", "<s:33>{+AEh}<s:7>", "<s:33>{+ARm}<s:7>", "<s:42>{+ACR}<s:6>", "<w:42>{AzSe}<w:6>", "<b:44>{AzFu}<e:8>", "<w:33>{AzCa}<s:7>", "<w:52>{JQQJ}<w:24-30>"}},
	{"SIGNED_URL", high, 350, []string{"sig=<w%+/:43-70>"}},
	{"BAIDU_CLOUD_KEY", crit, 300, []string{"bce-v3/ALTAK-<w:21>/<x:40>"}},
	{"DENO_DEPLOY_TOKEN", crit, 300, []string{"ddp_<w:36>", "ddo_<w:36>"}},
	{"DIGITALOCEAN_SPACES_KEY", high, 300, []string{"DO00<w:16>"}},
	{"EXOSCALE_KEY", high, 300, []string{"EXO<x:24>"}},
	{"GCP_REFRESH_TOKEN", crit, 350, []string{"1//0<b:60-120>"}},
	{"SIGNED_URL", high, 300, []string{"X-Goog-Signature=<x:256-512>"}},
	{"NETBIRD_TOKEN", crit, 300, []string{"nbp_<w:36>"}},
	{"SCALEWAY_ACCESS_KEY", high, 300, []string{"SCW<A:17>"}},
	{"TENCENT_SECRET_ID", high, 300, []string{"AKID<w:32>"}},
	{"UPCLOUD_TOKEN", crit, 300, []string{"ucat_<A:26>"}},
	// data
	{"AIVEN_PASSWORD", crit, 300, []string{"AVNS_<b:19>"}},
	{"COCKROACH_KEY", crit, 300, []string{"CCDB1_<w:22>_<w:40>"}},
	{"CONFLUENT_KEY", crit, 350, []string{"cflt<s:60>"}},
	{"DBT_TOKEN", crit, 300, []string{"dbtc_<b:32-60>", "dbtu_<b:32-60>"}},
	{"MONGODB_ATLAS_SECRET", crit, 300, []string{"mdb_sa_sk_<b:40>"}},
	{"NEON_API_KEY", crit, 300, []string{"napi_<a:50-70>"}},
	// code and packages
	{"CRATES_TOKEN", crit, 300, []string{"cio<w:32>"}},
	{"PACKAGIST_TOKEN", crit, 300, []string{"packagist_<c:3>_<x:60-70>"}},
	{"INNGEST_KEY", crit, 300, []string{"signkey-prod-<x:64>", "signkey-test-<x:64>", "signkey-branch-<x:64>"}},
	{"SNYK_TOKEN", crit, 300, []string{"snyk_uat.<b.:30-300>", "snyk_sat.<b.:30-300>"}},
	{"TRIGGER_KEY", high, 300, []string{"tr_dev_<w:20-24>", "tr_prod_<w:20-24>", "tr_stg_<w:20-24>", "tr_pat_<w:40>"}},
	{"N8N_API_KEY", high, 300, []string{"n8n_api_<x:80>"}},
	// chat, mail, web hooks
	{"CHAT_WEBHOOK", high, 300, []string{"oapi.dingtalk.com/robot/send?access_token=<x:64>"}},
	{"CHAT_WEBHOOK", high, 250, []string{"open.feishu.cn/open-apis/bot/v2/hook/<h:36>", "open.larksuite.com/open-apis/bot/v2/hook/<h:36>"}},
	{"CHAT_WEBHOOK", high, 300, []string{"/with/key/<b:22-43>"}},
	{"ONESIGNAL_KEY", crit, 300, []string{"os_v2_app_<a:80-110>", "os_v2_org_<a:80-110>"}},
	{"TWILIO_KEY", crit, 300, twilioKeys()},
	{"SLACK_SESSION", crit, 250, []string{"xoxc-<d:8-14>-<d:8-14>-<d:8-14>-<x:64>", "xoxd-<w%+/:60-300>"}},
	{"CHAT_WEBHOOK", high, 250, []string{"qyapi.weixin.qq.com/cgi-bin/webhook/send?key=<h:36>"}},
	{"CHAT_WEBHOOK", high, 250, []string{"hooks.zapier.com/hooks/catch/<d:5-10>/<a:6-12>"}},
	// sales, money, shops
	{"HUBSPOT_KEY", crit, 300, []string{"pat-na1-<h:36>", "pat-na2-<h:36>", "pat-eu1-<h:36>", "pat-ap1-<h:36>"}},
	{"INTERCOM_KEY", crit, 350, []string{"dG9rO<s:50-64>"}},
	{"LINKEDIN_CREDENTIAL", high, 300, []string{"WPL_AP1.<w:16>.<s:8>", "WPL_AP0.<w:16>.<s:8>"}},
	{"PADDLE_KEY", crit, 300, []string{"pdl_live_apikey_<W:40-80>", "pdl_sdbx_apikey_<W:40-80>"}},
	{"PAYPAL_TOKEN", crit, 350, []string{"A21AA<b:80-100>"}},
	{"POLAR_TOKEN", crit, 300, []string{"polar_oat_<w:30-60>", "polar_pat_<w:30-60>"}},
	{"SALESFORCE_SESSION", crit, 350, []string{"<w:15>{!AQ}<b.:70-110>"}},
	{"SALESFORCE_REFRESH_TOKEN", crit, 350, []string{"5Aep861<b.:70-90>"}},
	{"SHOPIFY_TOKEN", crit, 200, []string{"shptka_<X:32>"}},
	{"TRELLO_TOKEN", crit, 300, []string{"ATTA<x:64><X:8>"}},
	// models
	{"MODEL_API_KEY", high, 300, []string{"bb_live_<b:27>"}},
	{"MODEL_API_KEY", high, 300, []string{"csk-<a:48>"}},
	{"MODEL_API_KEY", high, 300, []string{"crsr_<x:64>"}},
	{"MODEL_API_KEY", high, 300, []string{"sk-<x:32>"}},
	{"MODEL_API_KEY", high, 300, []string{"e2b_<x:40>"}},
	{"MODEL_API_KEY", high, 300, []string{"sk_<x:48>"}},
	{"MODEL_API_KEY", high, 300, []string{"fw_<w:22-24>"}},
	{"MODEL_API_KEY", high, 300, []string{"sk-helicone-<b:24-60>"}},
	{"MODEL_API_KEY", high, 350, []string{"jina_<b:60>"}},
	{"MODEL_API_KEY", high, 250, []string{"sk-lf-<h:36>"}},
	{"MODEL_API_KEY", high, 350, []string{"nvapi-<b:64>"}},
	{"MODEL_API_KEY", high, 300, []string{"rpa_<w:40-50>"}},
	{"MODEL_API_KEY", high, 300, []string{"tvly-<b:32-60>"}},
	{"MODEL_API_KEY", high, 350, []string{"tgp_v1_<b:43>"}},
	{"MODEL_API_KEY", high, 350, []string{"wandb_v1_<W:60-90>"}},
	// identity, monitoring and the rest
	{"ADOBE_CREDENTIAL", high, 300, []string{"p8e-<w:32>"}},
	{"DATA_API_KEY", med, 300, []string{"g.alchemy.com/v2/<b:32>"}},
	{"AXIOM_TOKEN", high, 250, []string{"xaat-<h:36>", "xapt-<h:36>"}},
	{"HONEYCOMB_KEY", high, 300, []string{"hcaik_<a:58>", "hcxik_<a:58>", "hcamk_<a:58>"}},
	{"DATA_API_KEY", med, 300, []string{"infura.io/v3/<x:32>"}},
	{"JUMPCLOUD_KEY", crit, 300, []string{"jca_<w:36>"}},
	{"MINISIGN_SECRET_KEY", crit, 350, []string{"RWRTY0Iy<s:180-220>"}},
	{"OKTA_TOKEN", crit, 300, []string{"SSWS 00<b:40>"}},
	{"ORY_TOKEN", crit, 300, []string{"ory_pat_<w:32>", "ory_st_<w:32>", "ory_at_<b.:80-100>"}},
	{"POSTHOG_KEY", crit, 350, []string{"phx_<w:43-48>"}},
	{"SOFTLAYER_KEY", crit, 250, []string{"api.softlayer.com/soap/v3/<a:64>", "api.softlayer.com/soap/v3.1/<a:64>"}},
	{"STYTCH_SECRET", crit, 300, []string{"secret-live-<e:36>", "secret-test-<e:36>"}},
	// private keys as base64: of DER, and of PEM once more
	{"PRIVATE_KEY_BASE64", crit, 350, []string{
		"MII<s:3>{IBADANBgkqhkiG9w0BAQEFAASC}<s:200-12000>", "MII<s:3>{IBAAKC}<s:200-12000>",
		"MII<s:3>{IBAAKB}<s:200-12000>",
		"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg<s:100-150>", "MHcCAQEEI<s:140-170>",
		"MC4CAQAwBQYDK2VwBCIEI<s:42-46>",
		"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt<s:100-12000>", "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS<s:100-12000>",
		"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS<s:100-12000>", "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ<s:100-12000>",
		"LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURSBLRVkt<s:100-12000>"}},
}

// twilioKeys are the patterns of SK and 32 digits: the first digit is in the mark, for SK alone stands in many words.
func twilioKeys() (list []string) {
	for _, c := range "0123456789abcdef" {
		list = append(list, "SK"+string(c)+"<x:31>")
	}
	return list
}
