package main

// Concepts that words stand for, whatever the language. The rules and the model speak of them.
const (
	cIgnore    = 1 << iota // to ignore, to forget, to override
	cPrior                 // previous, above, initial
	cAll                   // all, any, everything
	cYour                  // your, you
	cInstr                 // instructions, rules, prompt
	cNew                   // new, following, instead
	cReveal                // to show, to repeat, to tell
	cSysPrompt             // system prompt and its like
	cSecret                // password, key, credentials
	cPersona               // unrestricted, without rules, names of jailbreaks
	cRole                  // to pretend, to act as, from now on you
	cAI                    // names of models, assistant
	cReply                 // your answer, your response
	cSteer                 // to include, to translate, to append
	cSend                  // to send, to upload
	cPlace                 // an address: URL or mail
	cData                  // conversation, files, records
	cConceal               // do not tell
	cUser                  // the user
	cTool                  // tool, function
	cOrder                 // you must, strictly
	cDone                  // task complete, end of
	cOverride              // a whole phrase that overrides
	cMeta                  // example, quotes, explains: speaks about text
	cImagine               // imagine, suppose
	cHarm                  // illegal, unethical
	cPrivate               // personal data that a stranger asks for
	cBreak                 // what jailbreaks say of the rules they lift
	cStrict                // nothing else may be done
	cRules                 // rules, orders: like instructions, but said of many things
	cExtract               // whole phrases that ask for what stands before
	cNamed                 // jailbreaks that have a name
)

// words lists what stands for each concept, in the order of the languages en de fr es it pt nl pl tr ru uk zh
// ja ko ar hi
// bn id vi tl th. A star: whatever follows. An underscore: a space.
var words = []struct {
	concept uint32
	list    string
}{
	{cIgnore, "ignore ignores ignoring disregard* forget override overrule bypass neglect discard dismiss" +
		" pay_no_attention don_t_follow do_not_follow don_t_obey do_not_obey stop_following" +
		" no_longer_follow abandon drop_all leave_aside set_aside erase delete_all clear cancel" +
		" ignorier* vergiss* vergesst missacht* außer_acht überspring* ignorez ignorer oubli*" +
		" ne_tenez_pas tenez_pas_compte ne_tiens_pas ignora* olvid* caso_omiso no_hagas_caso descart*" +
		" desestim* dimentic* scorda* trascura* esqueç* esquec* desconsider* ignorar negeer* vergeet" +
		" zignoruj* ignoruj* pomiń* zapomnij* yoksay* yok_say* unut* görmezden dikkate_alma* aldırma*" +
		" игнорир* проигнорир* забудь* не_обращай* отмени* ігнору* забудьте 忽略 无视 無視 忘记 忘掉" +
		" 忘記 不要理会 不理会 不要遵循 不用管 忘れ 無効 무시* 잊어* 잊고* تجاهل* انس انسى अनदेखा" +
		" नजरअंदाज नज़रअंदाज़ नज़रअंदाज भूल उपेक्षा উপেক্ষা ভুলে abaikan lupakan bỏ_qua phớt_lờ quên_đi" +
		" huwag_pansinin balewalain kalimutan ไม่สนใจ ไปสนใจ เพิกเฉย ละเว้น ลืม ละเลย αγνόησ* ignoră" +
		" ignorera התעלם נשכח نادیده"},
	{cPrior, "previous* prior above preceding earlier foregoing initial original given_to_you given_before" +
		" you_were_given you_got you_received you_have_been_given so_far past existing current former" +
		" last vorherig* obig* bisherig* vorangegangen* vorig* früher* ursprünglich* précédent*" +
		" antérieur* ci_dessus initiale* anterior* previ* de_arriba inicial* precedent* di_cui_sopra" +
		" acima vorige voorgaande bovenstaande eerdere poprzedni* wcześniejsz* powyższ* önceki*" +
		" yukarıdaki* daha_önce предыдущ* прежн* вышеуказанн* выше ранее попередн* 之前 以上 先前 上述" +
		" 前面 上面 以前 これまで 上記 前の 先ほど 이전* 위의 앞의 앞선 기존* 지금까지 السابق* سابق*" +
		" أعلاه पिछल* उपरोक्त ऊपर पूर्व পূর্ববর্তী আগের উপরের sebelumnya di_atas trước ở_trên nakaraang" +
		" sa_itaas nauna* naunang ก่อนหน้า ข้างต้น ด้านบน προηγούμεν* föregående קודמות"},
	{cAll, "all any every everything anything alle alles allen tous toutes tout toda* todo* tutte tutti" +
		" tutto alle_eerdere wszystk* tüm bütün her_şey все всё всех весь 所有 全部 一切 すべて 全て" +
		" 모든 모두 كل جميع सभी सारे সমস্ত সব semua tất_cả mọi lahat ทั้งหมด"},
	{cYour, "our unser* unsere* notre nos nuestr* nostr* nosso nossa nosso_sistema nasz* наш* 我们" +
		" 我们的 私たち 弊社 우리 نظامنا हमारे हमारी bizim sistemimiz* onze ons chúng_ta chúng_tôi kami kita เรา ของเรา" +
		" আমাদের ating aming" +
		" your yours you ur dein* euer eure* ihre ihren votre vos tes ton tu tus sus su suas seu seus" +
		" sua tuo tua tuoi tue vostr* jouw je uw twoje twoich твои* ваши* твой ваш вашу 你 您 你的" +
		" あなた 당신* 너의 너는 आपके आपको तुम्हारे आपकी আপনার anda kamu của_bạn bạn iyong mo senin sana" +
		" คุณ"},
	{cInstr, "instruction instructions instructed prompt prompts directive directives programming directions" +
		" anweisung* instruktion* vorgabe* befehl* aufforderung* consigne* invite instruccion*" +
		" instrucción indicacion* indicaciones istruzion* comand* direttiv* instruç* opdracht*" +
		" aanwijzing* instructie* instrukcj* polecen* talimat* komut* yönerge* инструкц* указани*" +
		" команд* промпт* інструкц* вказівк* 指令 指示 提示 提示词 说明 命令 要求 プロンプト 지시* 명령*" +
		" 프롬프트* 지침* تعليمات* التعليمات أوامر الأوامر निर्देश* आदेश* নির্দেশ* instruksi perintah" +
		" chỉ_dẫn hướng_dẫn tagubilin utos คำสั่ง คำแนะนำ οδηγίες instruktioner הוראות"},
	{cRules, "guideline guidelines rule rules command commands order orders constraints restrictions" +
		" restriction policy policies training safeguards safety_protocols protocols regeln règle*" +
		" ordre* regla* regol* regras zasad* kural* правил* 規則 规则 ルール 규칙* नियम* aturan lệnh" +
		" orden órdenes ordens"},
	{cNew, "new following instead now then only next neue* folgende* stattdessen nouvelle* suivant* nueva*" +
		" siguiente* en_su_lugar nuov* seguent* novas novo nieuwe nowe yeni новы* следующ* 新的 现在" +
		" 改为 新しい 代わりに 새로운 대신 الجديدة नए baru mới bago"},
	{cReveal,
		"give state confirm reveal show print display output repeat tell leak expose disclose share dump copy" +
			" translate encode summarize summarise recite spell provide what_is what_are what_s what_was" +
			" what_were type_out echo list write_out console_log zeig* verrat* nenne sag sage gib wiederhol*" +
			" was_ist offenbar* montre* révèle* affiche* répète* donne* dis_moi dites quel_est quelle_est" +
			" quels_sont quelles_sont muestra* revela* repite* dime cuál_es cuáles_son mostra* rivela*" +
			" ripeti* dimmi qual_è quali_sono mostre revele repita diga qual_é quais_são toon onthul*" +
			" herhaal* wat_is pokaż* ujawnij* powtórz wypisz podaj jakie_jest göster* söyle* açıkla* nedir" +
			" paylaş* yazdır* покажи* раскро* повтори* выведи* скажи* назови* какой_пароль 显示 透露 告诉" +
			" 输出 重复 打印 泄露 说出 是什么 表示 教えて 出力 繰り返 明かし 何ですか 보여* 알려* 출력*" +
			" 반복* 말해* 공개* أظهر اظهر اكشف أخبرني اخبرني اعرض كرر ما_هي ما_هو दिखा* बता* प्रकट* क्या_है" +
			" প্রকাশ বলুন দেখান কী tunjukkan ungkapkan ulangi beritahu apa tiết_lộ cho_tôi là_gì ipakita" +
			" ibunyag ulitin sabihin ano_ang แสดง เปิดเผย บอก คืออะไร give_me give_us dígame dis_nous"},
	{cSysPrompt, "system_prompt systemprompt system_message system_messages initial_prompt hidden_prompt" +
		" original_prompt your_prompt secret_prompt prompt_above system_instructions system_instruction" +
		" initial_instructions starting_instructions developer_message developer_instructions" +
		" hidden_instructions secret_instructions internal_instructions internal_prompt" +
		" system_configuration previous_prompt pre_prompt preprompt your_instructions" +
		" my_instructions_are your_guidelines your_original_instructions base_prompt custom_instructions" +
		" context_window first_message systemanweisung* system_anweisung* systemprompts prompt_système" +
		" invite_système instructions_système instructions_initiales prompt_del_sistema" +
		" instrucciones_del_sistema instrucciones_iniciales prompt_di_sistema istruzioni_di_sistema" +
		" prompt_do_sistema instruções_do_sistema системный_промпт системные_инструкции" +
		" системное_сообщение 系统提示 系统提示词 系統提示 系统指令 初始指令 システムプロンプト 初期指示" +
		" 시스템_프롬프트* 시스템_메시지* सिस्टम_प्रॉम्प्ट sistem_istemi sistem_komut* prompt_systemowy" +
		" systeemprompt موجه_النظام prompt_sistem lời_nhắc_hệ_thống everything_before_this hidden_rules" +
		" secret_rules rules_you_were_given instructions_you_were_given system_rules"},
	{cSecret, "password passwords passwort* passcode passphrase secret secrets credential credentials api_key" +
		" api_keys apikey private_key access_code secret_code security_code secret_word secret_key" +
		" access_key confidential kennwort geheim* zugangsdaten mot_de_passe mots_de_passe contraseña*" +
		" parola password_di senha senhas wachtwoord* hasło hasła şifre* parola* пароль* пароля 密码" +
		" 密碼 口令 秘密 机密 パスワード 暗証 비밀번호* 암호* كلمة_المرور كلمة_السر كلمات_المرور" +
		" पासवर्ड* পাসওয়ার্ড* kata_sandi mật_khẩu รหัสผ่าน canary confidential_string"},
	{cNamed, "dan do_anything_now jailbreak* jailbroken developer_mode god_mode anything_now dan_mode" +
		" stan_mode evil_mode opposite_mode jailbreak_mode evilbot always_intelligent_and_machiavellian" +
		" maintenance_mode debug_mode admin_mode sudo_mode system_mode unrestricted_mode entwicklermodus" +
		" mode_développeur modo_desarrollador modo_desenvolvedor modalità_sviluppatore" +
		" режим_разработчика 开发者模式 開発者モード 개발자_모드 geliştirici_modu tryb_programisty"},
	{cPersona, "unrestricted unfiltered uncensored no_restrictions without_restrictions" +
		" without_any_restrictions no_filters no_filter no_rules no_limits no_limitations" +
		" without_limitations no_ethical no_moral* without_ethics without_ethical amoral machiavellian" +
		" broken_free free_from do_not_have_to_abide don_t_have_to_abide no_censorship free_of_all" +
		" never_refuse* can_t_refuse cannot_refuse not_refuse no_warnings no_disclaimers bypass_all" +
		" not_bound not_restricted not_limited_by typical_confines content_policy openai_policy" +
		" openai_policies regardless_of_ethics root_access ohne_einschränkung* sans_restriction*" +
		" sin_restricciones senza_restrizioni sem_restrições без_ограничений 没有限制 不受限制 无限制" +
		" 制限なし 제한_없* بدون_قيود kısıtlama_olmadan bez_ograniczeń"},
	{cRole, "pretend pretending act_as act_like acting_as roleplay role_play roleplaying you_are_now" +
		" you_re_now from_now_on you_will_be you_will_now you_shall imagine_you simulate impersonat*" +
		" stay_in_character immerse_yourself take_on_the_role assume_the_role play_the_role" +
		" you_are_going_to behave_as behave_like respond_as answer_as speak_as you_are_a you_re_a" +
		" you_are_an your_name_is in_character persona i_want_you_to tu_als_ob ab_jetzt du_bist_jetzt" +
		" agis_comme à_partir_de_maintenant tu_es_maintenant actúa_como a_partir_de_ahora finge" +
		" ahora_eres comportati d_ora_in_poi fai_finta atue_como a_partir_de_agora finja действуй_как" +
		" веди_себя притворись теперь_ты отныне представь 扮演 假装 从现在开始 你现在是 角色 演じて" +
		" ふりをして 今から 行動해 역할 지금부터 تصرف من_الآن gibi_davran rol_yap bundan_sonra" +
		" şu_andan_itibaren udawaj zachowuj_się od_teraz doe_alsof vanaf_nu hãy_đóng_vai berpura_pura" +
		" magpanggap"},
	{cAI, "ai chatgpt gpt gpt_4 openai language_model llm chatbot assistant claude gemini llama bard bing" +
		" copilot artificial_intelligence large_language_model ki ia künstliche_intelligenz" +
		" inteligencia_artificial intelligence_artificielle нейросет* ии 人工智能 助手 アシスタント" +
		" 인공지능 yapay_zeka"},
	{cReply, "following_code_block following_code_snippet following_code_section following_code_excerpt" +
		" below_code subsequent_code your_response your_reply your_replies your_answer your_answers" +
		" your_output your_outputs your_message your_explanation your_elucidation your_summary" +
		" your_final_answer your_text your_translation your_solution your_communication your_conclusion" +
		" deine_antwort deiner_antwort votre_réponse ta_réponse tu_respuesta su_respuesta" +
		" la_tua_risposta sua_resposta jouw_antwoord twoja_odpowiedź cevabını* yanıtını* твой_ответ" +
		" ваш_ответ свой_ответ 你的回答 您的回答 你的回复 答えを 답변에 إجابتك अपने_उत्तर"},
	{cSteer, "include insert add append modify write craft express represent augment enhance enrich" +
		" rearrange tease translate integrate mention promote convert encode reverse substitute replace" +
		" incorporate adjust embed blend alter infuse inject weave introduce format scramble change" +
		" prepend randomly"},
	{cSend, "send sends forward upload post email e_mail transmit exfiltrat* transfer deliver curl wget" +
		" submit leak sende* schick* leite_weiter envoie* envoyez transmet* envía* enviar envia* manda*" +
		" invia* inoltra* stuur* verstuur* wyślij* prześlij* gönder* отправ* перешли* 发送 上传 转发" +
		" 送信 転送 보내* 전송* أرسل ارسل भेज* পাঠান kirim* gửi ipadala ส่ง"},
	{cPlace, "http https www ftp webhook attacker external_server third_party"},
	{cData, "conversation chat_history chat_log history database env environment_variables ssh id_rsa" +
		" contacts inbox cookies session user_data 对话 聊天记录 会話 대화 переписк* verlauf" +
		" conversación historial gespräch"},
	{cConceal, "do_not_tell don_t_tell do_not_mention don_t_mention without_telling without_informing" +
		" do_not_inform don_t_inform without_the_user do_not_disclose don_t_let_the do_not_let_the" +
		" silently secretly covertly never_mention never_tell without_mentioning do_not_alert" +
		" don_t_alert do_not_notify without_notifying do_not_ask_for_confirmation without_asking" +
		" without_confirmation keep_this_hidden do_not_show do_not_acknowledge ohne_zu_erwähnen" +
		" sag_nicht ne_dis_pas ne_mentionne_pas sans_mentionner no_menciones no_le_digas sin_decir" +
		" sin_mencionar non_dire senza_dire não_mencione não_conte не_говори не_сообщай не_упоминай" +
		" 不要告诉 不要提及 别告诉 伝えない 言わないで 말하지_마* 알리지_마* لا_تخبر मत_बताना söyleme" +
		" bahsetme nie_mów nie_wspominaj vertel_niet"},
	{cUser, "user users human benutzer nutzer utilisateur usuario utente usuário gebruiker użytkownik*" +
		" kullanıcı* пользовател* 用户 ユーザー 사용자* المستخدم उपयोगकर्ता"},
	{cTool, "tool tools function functions api plugin tool_call tool_calls other_tools werkzeug outil" +
		" herramienta strumento ferramenta инструмент* 工具 ツール 도구"},
	{cOrder, "you_must you_have_to adhere_to the_following_instruction do_the_following" +
		" following_instruction following_instructions follow_these important_message" +
		" important_instruction* it_is_imperative mandatory urgent admin_override high_priority" +
		" you_need_to please_execute execute_the_following before_you_do_anything before_proceeding" +
		" in_addition_to_the mandatory_step vous_devez debes devi você_deve du_musst musisz je_moet" +
		" yapmalısın ты_должен вы_должны вы_администратор 你必须 您必须 必须 しなければ 반드시 يجب_عليك" +
		" आपको_चाहिए vous_êtes_administrateur"},
	{cBreak, "broken_free typical_confines confines_of_ai abide_by_the_rules two_different_ways" +
		" two_different_responses two_responses two_ways two_separate stay_in_dan out_of_character" +
		" break_character breaking_character openai_content_policy openai_s_content openai_guidelines" +
		" openai_s_guidelines openai_policies openai_s_policies openai_policy openai_s_policy" +
		" openai_s_rules openai_rules openai_s_usage zero_restrictions never_refuse never_refuses" +
		" no_longer_chatgpt no_longer_bound not_bound_by not_required_to_follow without_any_warnings" +
		" no_warnings without_warnings warnings_or_disclaimers alter_ego free_from_all freed_from" +
		" morals_or_ethics no_moral no_morals no_ethics no_ethical without_remorse insert_prompt_here" +
		" my_first_question my_first_request my_first_command jailbroken_response do_anything_now" +
		" anything_you_want not_have_to_abide no_restrictions_or ethical_or_moral ethics_or_morals" +
		" moral_or_ethical not_follow_openai against_openai bypass_openai no_censorship" +
		" never_breaks_character always_answer_every you_have_no_restrictions free_of_restrictions" +
		" no_filters_and ai_without_ethics without_ethics no_rules_or knowledge_is_cut_off" +
		" developer_mode_output mode_enabled brechen_frei keine_ethischen sans_éthique sin_ética" +
		" senza_etica sem_ética без_этики 没有道德 不受道德 倫理的な制約 윤리적_제약 no_longer_apply" +
		" rules_do_not_apply safety_filters filters_disabled filters_are_disabled restrictions_lifted" +
		" restrictions_removed content_filters"},
	{cExtract, "print_the_text_above print_the_above print_everything_above print_all_of_the_above" +
		" repeat_the_text_above repeat_the_above repeat_everything_above repeat_all_of_the" +
		" repeat_the_words_above repeat_all_text_above output_the_text_above output_the_above" +
		" output_everything_above output_all_of_the output_all_text_above show_the_text_above" +
		" show_everything_above copy_the_text_above copy_everything_above recite_the_text_above" +
		" repeat_the_conversation_above output_initialization_above output_initialization" +
		" repeat_your_first what_does_the_text_above say_the_text_above continue_the_text_above 重复上面" +
		" 输出上面 上の文章を 위_텍스트를 repite_el_texto_anterior répète_le_texte wiederhole_den_text" +
		" ripeti_il_testo repita_o_texto повтори_текст_выше"},
	{cStrict, "strictly_adhere must_strictly strictly_follow not_use_other_tools not_use_any_other_tools" +
		" use_no_other_tool do_not_use_other no_other_tools immediately_call" +
		" before_you_can_solve before_doing_anything_else before_answering_the_user" +
		" befolge_strikt suivre_strictement estrictamente rigorosamente строго_следу* 严格遵守 厳密に従"},
	{cDone, "task_complete task_completed end_of_prompt end_of_context new_instructions new_instruction" +
		" new_task updated_instructions override_confirmed system_override end_of_document begin_new" +
		" instruction_override new_rules your_new_task your_real_task actual_task end_of_message" +
		" neue_anweisung* nouvelles_instructions nuevas_instrucciones nuove_istruzioni novas_instruções" +
		" новые_инструкции 新指令 新的指令 任务完成 新しい指示 새로운_지시* yeni_talimat*" +
		" nowe_instrukcje"},
	{cOverride, "ignore_the_above ignore_all_previous ignore_previous ignore_everything ignore_all_above" +
		" ignore_above ignore_everything_above disregard_the_above disregard_previous disregard_all" +
		" disregard_above forget_everything forget_all forget_the_above forget_previous forget_what_i" +
		" forget_what_you forget_your ignore_all_instructions ignore_your ignore_my_previous" +
		" ignore_any_previous ignore_all_other ignore_what ignore_these ignore_those ignore_prior" +
		" ignore_preceding disregard_your disregard_everything disregard_prior vergiss_alles" +
		" ignoriere_alle oubliez_tout oublie_tout olvida_todo dimentica_tutto esqueça_tudo забудь_все" +
		" 忽略以上 忽略之前 忽略上述 忽略所有 忽略前面 忘记之前 上記を無視 これまでの指示を無視" +
		" 以前の指示を無視 위의_내용을_무시* 이전_지시* تجاهل_ما_سبق تجاهل_كل yukarıdakileri" +
		" zapomnij_o_wszystkim vergeet_alles उपरोक्त_को bỏ_qua_những ไปสนใจข้างต้น if_you_are_an_ai" +
		" if_you_re_an_ai note_to_ai note_to_the_ai note_to_llm new_instructions_say dear_assistant dear_ai attention_ai" +
		" hey_chatgpt message_to_the_ai instructions_for_ai ai_reading_this language_model_reading" +
		" llm_reading ai_assistant_reading to_any_ai any_ai_system when_summarizing_this" +
		" when_you_summarize_this if_you_are_a_language_model falls_du_eine_ki si_tu_es_une_ia" +
		" si_eres_una_ia se_sei_una_ia se_você_é_uma_ia если_ты_ии 如果你是ai あなたがaiなら"},
	{cMeta, "untrusted malicious unsafe suspicious harmless called saying stating reads example examples" +
		" quotes quote quoted explains explain training_material awareness analysts detection test tests" +
		" paper studies module benchmark phrase describes policy_review attack attacks recognize" +
		" documentation lesson quiz glossary regex assert_flagged unit_test sample samples learners term" +
		" article"},
	{cImagine, "imagine suppose hypothetical* hypothetically fictional scenario parallel_world let_s_assume" +
		" let_s_play in_a_world we_re_in stell_dir_vor stellen_sie imagina* imagin* immagina* supong*" +
		" supon* wyobraź* hayal_et* düşün* представь* 想象 假设 想像 仮に 상상* تخيل कल्पना bayangkan" +
		" hãy_tưởng_tượng"},
	{cHarm, "illegal unethical harmful immoral offensive dangerous inappropriate profanity swear swearing" +
		" morals ethics ethical moral nsfw explicit hateful"},
	{cPrivate, "social_security credit_card email_address home_address birth_date date_of_birth phone_number" +
		" residence social_security_number live lives personal_data personal_details wohnt geburtsdatum" +
		" adresse_e_mail dirección fecha_de_nacimiento dirección_de_correo data_di_nascita" +
		" data_de_nascimento дата_рождения адрес живет живёт 住址 生日 住んで 생년월일 주소 doğum_tarihi" +
		" जन्म_तिथि"},
}
